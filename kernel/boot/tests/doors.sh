#!/bin/sh
# What a 4 KiB request costs by NBD, the kernel's nbd, ublk, vhost-user-blk (for bench/doors/run).
# module: none
# drivers: ublk_drv nbd
# product: release
# programs: nbd-client
# examples: light_client vhost_client
# memory: 2G
# seconds: 3000
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
load nbd || die 10 "nbd"
mkdir -p /run
seconds=1
schedulers="paternoster wfq none"
observed=no
for word in $(cat /proc/cmdline); do
    case $word in seconds=*) eval "$word" ;; observed=*) eval "$word" ;; schedulers=*) schedulers=$(echo "${word#*=}" | tr , ' ') ;; esac
done
observing=
# With what an operator would switch on: a scrape of the metrics per second, and a log of every client.
if [ "$observed" = yes ]; then
    ip link set lo up
    observing="--metrics tcp:127.0.0.1:9478 --log-level debug --log-format json"
    while sleep 1; do wget -q -O /tmp/scrape http://127.0.0.1:9478/metrics; done &
fi
dd if=/dev/urandom of=/tmp/b.img bs=1M count=64 2>/dev/null

# Instructions that the server's threads have spent: with -icount, a nanosecond is an instruction.
spent() {
    cat /proc/$server/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}
# Requests of a kind that the server has answered: rios or wios.
answered() {
    hoistway stat --control /tmp/ctl --format io.stat --group b --interval 1ms >/tmp/stat || die 15 "stat"
    tr ' ' '\n' </tmp/stat | sed -n "s/^$1=//p"
}
iops_of() {
    sed -n 's/^ *"iops" *: *\([0-9]*\).*/\1/p; s/^{"iops": \([0-9]*\).*/\1/p' "$1" | sort -n | tail -n 1
}
block_device() {
    fio --name=d --filename="$1" --direct=1 --ioengine=libaio --rw=rand"$2" --bs=4k --iodepth="$3" --time_based --runtime="$seconds" \
        --norandommap --randrepeat=0 --gtod_reduce=1 --output-format=json --output=/tmp/out-client
}
by() {
    case $1 in
    nbd) light_client /tmp/nbd b --depth "$3" --rw "$2" --seconds "$seconds" >/tmp/out-client ;;
    vhost-user-blk) vhost_client /tmp/vhost --depth "$3" --rw "$2" --seconds "$seconds" >/tmp/out-client ;;
    ublk) block_device "$ublk" "$2" "$3" ;;
    kernel-nbd) block_device /dev/nbd0 "$2" "$3" ;;
    esac
}

for scheduler in $schedulers; do
    hoistway serve --nbd unix:/tmp/nbd --export b=/tmp/b.img,ublk --vhost-user unix:/tmp/vhost --scheduler "$scheduler" --control /tmp/ctl \
        $observing >/tmp/out 2>/tmp/err &
    server=$!
    tries=0
    until grep -q '^serving' /tmp/out && grep -q '^listening nbd' /tmp/out; do
        tries=$((tries + 1))
        [ $tries -gt 300 ] && { cat /tmp/out /tmp/err; die 12 "not ready"; }
        sleep 0.1
    done
    ublk=$(sed -n 's/^serving \(.*\): b$/\1/p' /tmp/out)
    nbd-client -unix /tmp/nbd /dev/nbd0 -N b -C 1 >/tmp/nbd-out 2>&1 || { cat /tmp/nbd-out /tmp/err; die 13 "nbd-client"; }
    echo none >/sys/block/nbd0/queue/scheduler
    for load in "read 1" "read 32" "write 32"; do
        rw=${load% *} depth=${load#* }
        case $rw in read) count=rios ;; write) count=wios ;; esac
        for door in nbd kernel-nbd ublk vhost-user-blk; do
            requests=$(answered "$count")
            instructions=$(spent)
            by $door "$rw" "$depth" || { cat /tmp/out-client /tmp/err; die 14 "$door $load"; }
            instructions=$(($(spent) - instructions))
            requests=$(($(answered "$count") - ${requests:-0}))
            iops=$(iops_of /tmp/out-client)
            [ "$requests" -gt 0 ] && [ "${iops:-0}" -gt 0 ] || { cat /tmp/stat /tmp/out-client; die 16 "no figures: $requests, $iops"; }
            echo "= $scheduler $door $rw $depth: server $((instructions / requests)) total $((1000000000 / iops)) iops $iops"
        done
    done
    nbd-client -d /dev/nbd0 >/dev/null 2>&1
    kill $server
    wait $server || { cat /tmp/err; die 17 "the server"; }
done
if [ "$observed" = yes ]; then
    grep -q '^hoistway_' /tmp/scrape && grep -q '"event":"disconnect"' /tmp/err || { head /tmp/scrape /tmp/err; die 18 "not observed"; }
fi
