#!/bin/sh
# Policies that share tags by group keep 300:100 when all scheduler tags are taken.
# part: long
# With 1 process of 32 reads in each group every read has one of the 256 tags, and the order alone
# divides the disk. With 8 processes of 64 reads each group asks for twice as many tags as there
# are.
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
echo +io >/sys/fs/cgroup/cgroup.subtree_control || die 12 "no io controller"
mkdir /sys/fs/cgroup/a /sys/fs/cgroup/b
echo 300 >/sys/fs/cgroup/a/io.hoist.weight && echo 100 >/sys/fs/cgroup/b/io.hoist.weight || die 13 "weights"
number=$(cat /sys/block/v0/dev)
# Reads of both groups so far, at one moment.
ios() {
    awk -v disk="$number" '$1 == disk { for (i = 2; i <= NF; i++) if (sub("rios=", "", $i)) print $i }' \
        /sys/fs/cgroup/a/io.stat /sys/fs/cgroup/b/io.stat
}
wrong=
for name in hw-wfq hw-paternoster hw-sfq hw-sfq-d2 hw-mqfq; do
    # PROCESSES:DEPTH:TOLERANCE, the last in thousandths: shares by tags scatter more in 2 s than
    # those by order. If groups had no limits of tags, the shares would be 1:1, which is off by 667.
    for load in 1:32:50 8:64:250; do
        processes=${load%%:*} depth=${load#*:}
        tolerance=${depth#*:} depth=${depth%:*}
        use v0 none || die 14 "none"
        use v0 $name || die 14 "switch to $name"
        echo 256 >/sys/block/v0/queue/nr_requests || die 15 "nr_requests"
        jobs=
        for group in a b; do
            for process in $(seq $processes); do
                (
                    echo 0 >/sys/fs/cgroup/$group/cgroup.procs
                    exec tester /dev/v0 $depth stream 3000
                ) &
                jobs="$jobs $!"
            done
        done
        sleep 1
        set -- $(ios)
        sleep 2
        set -- "$@" $(ios)
        kill $jobs
        wait
        [ $# = 4 ] || die 17 "no counts: $*"
        a=$(($3 - $1)) b=$(($4 - $2))
        off=$((1000 * a / (3 * b) - 1000))
        echo "= $name, $((processes * depth)) reads of each group, 256 tags, 300:100: $a : $b, off by $off/1000"
        [ ${off#-} -le $tolerance ] || wrong="$wrong $name:$load"
    done
done
use v0 none || die 14 "none"
rmmod hoistway || die 23 "rmmod"
[ -z "$wrong" ] || die 21 "shares:$wrong"
