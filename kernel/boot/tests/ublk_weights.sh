#!/bin/sh
# Two ublk devices of one disk keep their weights under fio, with one thread of the server and with two.
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
# measured SCHEDULER THREADS: sets `heavy_permille` to what the heavier tenant gets.
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
    fio --direct=1 --ioengine=libaio --iodepth=16 --rw=randread --bs=4k --time_based --ramp_time=10 --runtime=40 --norandommap \
        --output-format=json --output=/tmp/fio --name=light --filename=/dev/ublkb0 --name=heavy --filename=/dev/ublkb1 || die 12 "fio"
    kill $server
    wait $server || { cat /tmp/err; die 13 "the server"; }
    set -- "$1" "$2" $(sed -n '/"read" : {/,/}/s/^ *"total_ios" : \([0-9]*\),*/\1/p' /tmp/fio)
    [ $# = 4 ] || { cat /tmp/fio; die 14 "figures: $*"; }
    heavy_permille=$(($4 * 1000 / ($3 + $4)))
    echo "= $1, threads $2: light $3, heavy $4 I/Os: 1:$(($4 * 100 / $3 / 100)).$(($4 * 10 / $3 % 10)) of 1:8"
}
for scheduler in paternoster wfq; do
    measured $scheduler 1
    one=$heavy_permille
    measured $scheduler 2
    off=$((heavy_permille - one))
    [ ${off#-} -le 20 ] || die 15 "$scheduler: $one permille with one thread, $heavy_permille with two"
    # 7.6 to 8.4 times as much.
    [ $scheduler = wfq ] || { [ $one -ge 883 ] && [ $one -le 894 ]; } || die 16 "$scheduler is off: $one permille"
done
