#!/bin/sh
# Weights of two cgroups divide a busy disk: 300:100 and 100:800 to 5 %, and new weights count at once; bfq of the kernel beside.
load null_blk nr_devices=0 || die 10 "null_blk"
load bfq || die 10 "bfq"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
echo +io >/sys/fs/cgroup/cgroup.subtree_control || die 12 "no io controller"
mkdir /sys/fs/cgroup/a /sys/fs/cgroup/b
weight=/sys/fs/cgroup/a/io.hoist.weight
for bad in 0:range 10001:range text:Invalid; do
    echo ${bad%:*} 2>/tmp/error >$weight && die 13 "weight ${bad%:*} was taken"
    grep -q "${bad#*:}" /tmp/error || die 13 "weight ${bad%:*}: $(cat /tmp/error)"
done
[ "$(cat $weight)" = "default 100" ] || die 13 "a refused weight changed it: $(cat $weight)"
echo "default 200" >$weight && [ "$(cat $weight)" = "default 200" ] || die 13 "default 200"
number=$(cat /sys/block/v0/dev)
ios() { awk -v disk="$number" '$1 == disk { for (i = 2; i <= NF; i++) if (sub("rios=", "", $i)) print $i }' /sys/fs/cgroup/$1/io.stat; }
wrong=
# window A B SECONDS TOLERANCE: with these weights; a tolerance of 0 only looks.
window() {
    local a b
    echo $1 >/sys/fs/cgroup/a/$file && echo $2 >/sys/fs/cgroup/b/$file || die 15 "weights"
    sleep 0.3
    a=$(ios a) b=$(ios b)
    sleep $3
    a=$(($(ios a) - a)) b=$(($(ios b) - b))
    off=$((1000 * a * $2 / (b * $1) - 1000))
    echo "= $name $1:$2: $a : $b, off by $off/1000"
    [ $4 = 0 ] || [ ${off#-} -le $4 ] || wrong="$wrong $name $1:$2"
}
for name in hw-wfq hw-bfq hw-paternoster hw-cfq bfq; do
    use v0 $name || die 14 "switch to $name"
    file=io.hoist.weight tolerance=50 loose=50 long=4
    # A turn of bfq is so long that 4 s hold a few dozen: 9 % off were seen in as much, so it is given 16 s.
    case $name in
    bfq) file=io.bfq.weight tolerance=0 loose=0 long=16 ;;
    hw-bfq) loose=50 long=16 ;;
    hw-cfq) tolerance=0 loose=0 ;;
    esac
    advised=256
    [ $name = bfq ] || advised=$(cat /sys/block/v0/queue/iosched/nr_requests_advised) || die 16 "no advice"
    echo $advised >/sys/block/v0/queue/nr_requests
    [ -e /sys/block/v0/queue/iosched/low_latency ] && echo 0 >/sys/block/v0/queue/iosched/low_latency
    echo 0 2>/dev/null >/sys/block/v0/queue/iosched/slice_idle
    jobs=
    for group in a b; do
        (
            echo 0 >/sys/fs/cgroup/$group/cgroup.procs
            exec tester /dev/v0 16 stream 4000
        ) &
        jobs="$jobs $!"
    done
    window 300 100 1.5 $tolerance
    window 100 100 1.5 $tolerance
    window 100 800 $long $loose
    kill $jobs
    wait
done
dmesg | grep -q 'hw-bfq: shares of groups need nr_requests of 256 or more' || die 16 "no line of advice"
use v0 none || die 14 "none"
rmmod hoistway || die 23 "rmmod"
[ -z "$wrong" ] || die 21 "shares:$wrong"
