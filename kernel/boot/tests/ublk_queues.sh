#!/bin/sh
# One ublk device under fio with four jobs: two threads and queues against one, in turns. It only shows the ratio.
# module: none
# drivers: ublk_drv
# product: release
# memory: 2G
# time: real
# processors: 2
# seconds: 900
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
mkdir -p /run
rounds=5
backing=memory:64MiB
for word in $(cat /proc/cmdline); do
    case $word in rounds=*) eval "$word" ;; backing=*) eval "$word" ;; esac
done
# iops THREADS: of a server with as many.
iops() {
    cat >/tmp/s.toml <<END
[[device]]
name = "d"
threads = $1
[[device.export]]
name = "a"
backing = "$backing"
ublk = 0
END
    hoistway serve /tmp/s.toml >/tmp/out 2>/tmp/err &
    local server=$! tries=0
    until grep -q '^serving' /tmp/out; do
        tries=$((tries + 1))
        [ $tries -gt 300 ] && { cat /tmp/out /tmp/err; exit 12; }
        sleep 0.1
    done
    [ "$(ls /sys/block/ublkb0/mq | wc -l)" = "$1" ] || exit 13
    fio --name=j --numjobs=4 --filename=/dev/ublkb0 --direct=1 --ioengine=libaio --rw=randread --bs=4k --iodepth=8 --time_based --runtime=2 \
        --norandommap --randrepeat=0 --gtod_reduce=1 --group_reporting --output-format=json --output=/tmp/fio || exit 14
    kill $server
    wait $server || exit 15
    [ -e /dev/ublkb0 ] && exit 16
    sed -n 's/^ *"iops" *: *\([0-9]*\).*/\1/p' /tmp/fio | sort -n | tail -n 1
}
ratios=
for round in $(seq "$rounds"); do
    one=$(iops 1) && two=$(iops 2) || { cat /tmp/err; die 20 "round $round"; }
    echo "= round $round: one queue $one, two queues $two IOPS"
    ratios="$ratios $((two * 100 / one))"
done
median=$(echo "$ratios" | tr ' ' '\n' | grep . | sort -n | sed -n "$((rounds / 2 + 1))p")
echo "= two queues are $((median / 100)).$((median % 100 / 10))$((median % 10)) of one (median of $rounds rounds)"
