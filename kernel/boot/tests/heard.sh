#!/bin/sh
# The weights that systemd, runc and crun write count: io.weight, else io.bfq.weight; io.hoist.weight overrides them.
# 800:100 divides a busy disk to 10 %, a change counts within two seconds.
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
cd /sys/fs/cgroup && echo +io >cgroup.subtree_control && mkdir a b || die 12 "no io controller"
number=$(cat /sys/block/v0/dev)
[ -e a/io.bfq.weight ] && die 12 "bfq is there already"
# Reads of both groups so far, at one moment.
ios() { awk -v disk="$number" '$1 == disk { for (i = 2; i <= NF; i++) if (sub("rios=", "", $i)) print $i }' a/io.stat b/io.stat; }
wrong=
# window A B WHAT: checks the shares with these weights, which were set before.
window() {
    local off
    sleep 2
    set -- "$@" $(ios)
    sleep 4
    set -- "$@" $(ios)
    [ $# = 7 ] || die 17 "no counts: $*"
    off=$((1000 * ($6 - $4) * $2 / (($7 - $5) * $1) - 1000))
    echo "= $3, $1:$2: $(($6 - $4)) : $(($7 - $5)), off by $off/1000"
    [ ${off#-} -le 100 ] || wrong="$wrong; $3"
}
shown() { [ "$(cat $1/io.hoist.weight)" = "$2" ] || die 19 "$1 shows $(cat $1/io.hoist.weight), not $2"; }
# As systemd-run -p IOWeight=800 and =100, before the groups' first request and without bfq.
echo default 800 >a/io.weight && echo default 100 >b/io.weight || die 13 "io.weight"
use v0 hw-paternoster || die 14 "hw-paternoster"
cat /sys/block/v0/queue/iosched/nr_requests_advised >/sys/block/v0/queue/nr_requests
jobs=
for group in a b; do
    (
        echo 0 >$group/cgroup.procs
        exec tester /dev/v0 16 stream 6000
    ) &
    jobs="$jobs $!"
done
window 800 100 "io.weight"
shown a "default 800"
echo default 50 >b/io.weight && echo default 100 >a/io.weight || die 13 "io.weight"
window 100 50 "io.weight changed"
# Later than our module. systemd writes both files, and squeezes the second into 1 to 1000.
load bfq || die 10 "bfq"
echo 163 >a/io.bfq.weight && echo default 800 >a/io.weight && echo 100 >b/io.bfq.weight && echo default 100 >b/io.weight || die 13 "systemd's"
window 800 100 "io.weight beside io.bfq.weight"
# As runc and crun, which write the second alone if it is there.
echo default 100 >a/io.weight && echo 100 >a/io.bfq.weight && echo 500 >b/io.bfq.weight || die 13 "runc's"
window 100 500 "io.bfq.weight"
echo 300 >a/io.hoist.weight && echo 100 >b/io.hoist.weight || die 13 "io.hoist.weight"
window 300 100 "io.hoist.weight"
shown b "default 100"
echo default >a/io.hoist.weight && echo default >b/io.hoist.weight || die 13 "take back"
window 100 500 "io.hoist.weight taken back"
shown b "default 500"
# A line for the device: io.cost takes it only where it is on, else the kernel refuses it.
echo "$number 200" 2>/dev/null >b/io.weight && die 18 "a line for a device without io.cost"
limit v0 io.cost a b || die 18 "io.cost"
echo "$number 200" >b/io.weight || die 18 "a line for the device"
window 100 200 "a line of io.weight, beside io.cost"
shown b "default 500"
kill $jobs
wait
use v0 none || die 14 "none"
cd / && umount /sys/fs/cgroup || die 24 "the module keeps the hierarchy from being unmounted"
rmmod hoistway || die 23 "rmmod"
[ -z "$wrong" ] || die 21 "shares$wrong"
