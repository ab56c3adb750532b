#!/bin/sh
# Instructions per 4 KiB read of a process in a group, above no limiter: wbt, io.max, io.latency, io.cost.
# module: none
# part: long
load null_blk nr_devices=0 || die 10 "null_blk"
cd /sys/fs/cgroup && echo +io >cgroup.subtree_control && mkdir a p p/b && echo +io >p/cgroup.subtree_control || die 12 "no io controller"
# In a group below the root, and a level deeper: instructions of a read alone, and of one in a batch of 32.
measure() {
    for group in a p/b; do
        (
            echo 0 >$group/cgroup.procs || die 13 "$group"
            tester /dev/$1 1 random 300 && tester /dev/$1 32 random 100 || die 20 "tester in $group"
        )
    done
}
for limiter in none wbt io.max io.latency io.cost; do
    case $limiter in io.latency) [ -e a/io.latency ] || { echo "= io.latency is not in this kernel"; continue; } ;; esac
    # A disk of its own, because a limiter that was switched off still costs something.
    disk=$limiter
    nullb $disk size=1024 submit_queues=1 hw_queue_depth=64 irqmode=0 queue_mode=2 || die 11 "nullb"
    use $disk none || die 14 "none"
    echo 0 >/sys/block/$disk/queue/wbt_lat_usec || die 15 "no wbt"
    limit $disk $limiter a p p/b || die 16 "$limiter"
    set -- $(measure $disk)
    [ $# = 4 ] || die 21 "$limiter: $*"
    [ $limiter = none ] && base="$*" && echo "= none: alone $1, in a batch $2; a level deeper $3, $4" && continue
    set -- "$@" $base
    echo "= above none, $limiter: alone $(($1 - $5)), in a batch $(($2 - $6)); a level deeper $(($3 - $7)), $(($4 - $8))"
done
true
