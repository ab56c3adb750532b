#!/bin/sh
# Verified load on two disks that requeue: elevators, depths, weights, groups, processes change.
# There are two processors.
# kernel: debug
# time: real
load virtio_pci && load virtio_blk && [ -b /dev/vda ] || die 10 "virtio-blk"
load null_blk nr_devices=0 requeue=1,3,0,-1 || die 10 "null_blk"
load bfq && load mq-deadline || die 10 "the kernel's elevators"
echo +io >/sys/fs/cgroup/cgroup.subtree_control || die 12 "no io controller"
mkdir -p /sys/fs/cgroup/p && echo +io >/sys/fs/cgroup/p/cgroup.subtree_control || die 12 "groups"

# verified DISK: writes data and reads it back until it is stopped.
verified() {
    exec fio --name=load --filename=/dev/$1 --direct=1 --ioengine=libaio --iodepth=16 --rw=randrw --bsrange=4k-32k --size=4m --loops=1000 \
        --verify=crc32c --verify_fatal=1 --eta=never --output=/tmp/$1.log
}
# groups DISK: creates nested cgroups that read, change their weight and are removed.
groups() {
    local at=0 group
    while [ ! -e /tmp/end ]; do
        at=$((at + 1)) group=/sys/fs/cgroup/p/$1$((at % 7))
        mkdir $group 2>/dev/null
        (
            echo 0 >$group/cgroup.procs
            exec tester /dev/$1 4 random 20 >/dev/null
        ) &
        echo $((1 + at * 37 % 10000)) >$group/io.hoist.weight 2>/dev/null
        echo "$(cat /sys/block/$1/dev) 300" 2>/dev/null >$group/io.hoist.weight
        wait $!
        rmdir $group 2>/dev/null
    done
}
readers() {
    while [ ! -e /tmp/end ]; do
        cat /sys/block/*/queue/iosched/* /sys/kernel/debug/block/v0/sched/* /sys/kernel/debug/hoistway/v0/* /sys/fs/cgroup/p/*/io.stat
    done >/dev/null 2>&1
}

for round in 1 2; do
    insmod /hoistway.ko || die 10 "insmod"
    nullb v0 memory_backed=1 size=64 submit_queues=2 hw_queue_depth=16 irqmode=2 completion_nsec=100000 discard=1 || die 11 "nullb"
    rm -f /tmp/end
    jobs=
    for disk in v0 vda; do
        verified $disk &
        jobs="$jobs $!"
        groups $disk &
        others="$others $!"
    done
    readers &
    others="$others $!"
    switches=0
    for name in $(tr -d '[]' </sys/block/v0/queue/scheduler) mq-deadline bfq; do
        for disk in v0 vda; do
            use $disk $name || die 14 "switch of $disk to $name"
            switches=$((switches + 1))
            [ $name = none ] || for depth in 4 64 32; do
                echo $depth >/sys/block/$disk/queue/nr_requests || die 15 "nr_requests $depth under $name"
            done
        done
        sleep 0.3
    done
    >/tmp/end
    for job in $others; do wait $job; done
    others=
    for job in $jobs; do
        kill -0 $job 2>/dev/null || { tail -n 20 /tmp/v0.log /tmp/vda.log; die 20 "a load ended too early"; }
        kill -INT $job
        wait $job
    done
    grep -qE 'verify: bad|verify failed|err=[^ 0]' /tmp/v0.log /tmp/vda.log && { tail -n 20 /tmp/v0.log /tmp/vda.log; die 20 "verification"; }
    use vda none || die 14 none
    # The disk is removed under load.
    use v0 hw-paternoster || die 14 hw-paternoster
    tester /dev/v0 16 stream 100000 >/dev/null 2>&1 &
    job=$!
    sleep 0.3
    echo 0 >/sys/kernel/config/nullb/v0/power || die 17 "power off"
    wait $job && die 18 "the tester did not notice that its disk is gone"
    rmdir /sys/kernel/config/nullb/v0
    rmdir /sys/fs/cgroup/p/* 2>/dev/null
    rmmod hoistway || die 23 "rmmod"
    echo "= round $round: $switches switches"
done
dmesg | grep 'hoistway: hw-.* off' | grep -v 'queued 0 in driver 0 spilled 0 faults 0' && die 24 "something was left"
true
