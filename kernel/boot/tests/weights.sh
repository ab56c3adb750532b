#!/bin/sh
# Weights of two cgroups divide a busy disk: 300:100 gives 2.85 to 3.15, and new weights count at once.
load null_blk nr_devices=0 || die 10 "null_blk"
load bfq || die 10 "bfq"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
echo +io >/sys/fs/cgroup/cgroup.subtree_control || die 12 "no io controller"
mkdir /sys/fs/cgroup/a /sys/fs/cgroup/b
weight=/sys/fs/cgroup/a/io.hoist.weight
for bad in 0 10001 text; do
    echo $bad 2>/dev/null >$weight && die 13 "weight $bad was taken"
done
[ "$(cat $weight)" = "default 100" ] || die 13 "a refused weight changed it: $(cat $weight)"
echo "default 200" >$weight && [ "$(cat $weight)" = "default 200" ] || die 13 "default 200"
number=$(cat /sys/block/v0/dev)
ios() { awk -v disk="$number" '$1 == disk { for (i = 2; i <= NF; i++) if (sub("rios=", "", $i)) print $i }' /sys/fs/cgroup/$1/io.stat; }
window() {
    local a b
    a=$(ios a) b=$(ios b)
    sleep 1.5
    a=$(($(ios a) - a)) b=$(($(ios b) - b))
    ratio=$((100 * a / (b > 0 ? b : 1)))
    echo "= $1: $a : $b = $ratio / 100"
}
wrong=
for name in hw-wfq hw-cfq hw-bfq bfq; do
    use v0 $name || die 14 "switch to $name"
    echo 256 >/sys/block/v0/queue/nr_requests
    [ -e /sys/block/v0/queue/iosched/low_latency ] && echo 0 >/sys/block/v0/queue/iosched/low_latency
    echo 0 2>/dev/null >/sys/block/v0/queue/iosched/slice_idle
    file=io.hoist.weight
    [ $name = bfq ] && file=io.bfq.weight
    echo 300 >/sys/fs/cgroup/a/$file && echo 100 >/sys/fs/cgroup/b/$file || die 15 "weights"
    jobs=
    for group in a b; do
        (
            echo 0 >/sys/fs/cgroup/$group/cgroup.procs
            exec fio --name=$group --filename=/dev/v0 --direct=1 --ioengine=libaio --rw=randread --bs=4k --iodepth=16 --time_based \
                --runtime=100 --eta=never --output=/tmp/$group.log
        ) &
        jobs="$jobs $!"
    done
    # Both must be under way: fio needs most of a second to start.
    sleep 3
    window "$name 300:100"
    case $name in hw-wfq | hw-bfq) [ $ratio -ge 285 ] && [ $ratio -le 315 ] || wrong="$wrong $name:$ratio" ;; esac
    echo 100 >/sys/fs/cgroup/a/$file
    sleep 0.3
    window "$name 100:100"
    case $name in hw-wfq | hw-bfq) [ $ratio -ge 95 ] && [ $ratio -le 105 ] || wrong="$wrong $name:$ratio" ;; esac
    kill -INT $jobs
    wait
done
use v0 none || die 14 "none"
rmmod hoistway || die 23 "rmmod"
[ -z "$wrong" ] || die 21 "shares:$wrong"
