#!/bin/sh
# Two ublk devices of one disk get what their weights entitle them to under fio, with two threads of the server as with one.
# module: none
# drivers: ublk_drv
# product: debug
# memory: 2G
# time: real
# seconds: 900
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
mkdir -p /run
truncate -s 256M /tmp/a.img /tmp/b.img
# reads NAME...: the I/Os of each tenant, running beside the others.
reads() {
    local jobs= name number
    for name; do
        [ $name = light ] && number=0 || number=1
        jobs="$jobs --name=$name --filename=/dev/ublkb$number"
    done
    fio --direct=1 --ioengine=libaio --iodepth=16 --rw=randread --bs=4k --time_based --ramp_time=5 --runtime=30 --norandommap \
        --output-format=json --output=/tmp/fio $jobs >/dev/null || die 12 "fio"
    sed -n '/"read" : {/,/}/s/^ *"total_ios" : \([0-9]*\),*/\1/p' /tmp/fio
}
# measured SCHEDULER THREADS: sets `isolation` to what the tenant that is worst off gets of its entitlement, in permille: of
# 1/9 or 8/9 of what one gets alone.
measured() {
    cat >/tmp/s.toml <<END
[[device]]
name = "d"
scheduler = "$1"
threads = $2
[[device.export]]
name = "light"
backing = "model:sata,/tmp/a.img"
group = "light"
ublk = 0
[[device.export]]
name = "heavy"
backing = "model:sata,/tmp/b.img"
group = "heavy"
ublk = 1
[[group]]
path = "light"
weight = 100
[[group]]
path = "heavy"
weight = 800
END
    hoistway serve /tmp/s.toml >/tmp/out 2>/tmp/err &
    server=$!
    tries=0
    until [ "$(grep -c '^serving' /tmp/out)" = 2 ]; do
        tries=$((tries + 1))
        [ $tries -gt 300 ] && { cat /tmp/out /tmp/err; die 11 "not ready"; }
        sleep 0.1
    done
    alone=$(reads heavy)
    set -- "$1" "$2" $(reads light heavy)
    kill $server
    wait $server || { cat /tmp/err; die 13 "the server"; }
    [ $# = 4 ] && [ "$alone" -gt 0 ] || { cat /tmp/fio; die 14 "figures: $alone, $*"; }
    light=$(($3 * 9000 / alone)) heavy=$(($4 * 9000 / 8 / alone))
    isolation=$((light < heavy ? light : heavy))
    [ $isolation -le 1000 ] || isolation=1000
    echo "= $1, threads $2: alone $alone, light $3, heavy $4 I/Os: isolation $isolation permille"
}
for scheduler in paternoster wfq; do
    measured $scheduler 1
    one=$isolation
    measured $scheduler 2
    off=$((isolation - one))
    [ ${off#-} -le 20 ] || die 15 "$scheduler: isolation $one permille with one thread, $isolation with two"
    # What wfq can hold back on a disk that has room for all requests in its own queue is not much.
    [ $scheduler = wfq ] || [ $one -ge 950 ] || die 16 "$scheduler: isolation $one permille"
done
