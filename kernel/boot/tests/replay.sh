#!/bin/sh
# Every call of every elevator is written down under a mixed load and played again in user space: identical answers.
# record: 8
load virtio_pci && load virtio_blk && [ -b /dev/vdb ] || die 10 "no second disk"
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko record=120000 || die 10 "insmod"
nullb v0 memory_backed=1 size=64 submit_queues=2 hw_queue_depth=8 irqmode=2 completion_nsec=100000 discard=1 || die 11 "nullb"
mkdir -p /sys/fs/cgroup/a /sys/fs/cgroup/b
echo +io >/sys/fs/cgroup/cgroup.subtree_control
at=0
for name in $(tr -d '[]' </sys/block/v0/queue/scheduler); do
    case $name in hw-*) ;; *) continue ;; esac
    use v0 $name || die 14 "switch to $name"
    echo 128 >/sys/block/v0/queue/nr_requests
    echo 300 >/sys/fs/cgroup/a/io.hoist.weight || die 15 "weight"
    for group in a b; do
        (
            echo 0 >/sys/fs/cgroup/$group/cgroup.procs
            exec fio --filename=/dev/v0 --direct=1 --ioengine=libaio --eta=never --output=/tmp/$group.log --bsrange=4k-16k \
                --number_ios=300 --name=r --rw=randread --iodepth=16 --name=w --rw=randwrite --iodepth=8 --prioclass=2 --prio=6 \
                --name=s --rw=read --iodepth=4
        ) &
        eval "job_$group=\$!"
    done
    sleep 0.2
    echo 50 >/sys/fs/cgroup/a/io.hoist.weight
    wait $job_a && wait $job_b || die 20 "fio under $name"
    dd if=/dev/v0 of=/dev/null bs=1M count=4 2>/dev/null
    stats=$(cat /sys/block/v0/queue/iosched/stats)
    echo "$stats" | grep -q '^unrecorded 0$' || die 21 "$name: more calls than there is room for"
    echo "$stats" | grep -q '^faults 0$' || die 22 "faults under $name"
    cat /sys/kernel/debug/hoistway/v0/config /sys/kernel/debug/hoistway/v0/calls | dd of=/dev/vdb bs=1M seek=$at iflag=fullblock conv=fsync 2>/dev/null
    at=$((at + 8))
done
use v0 none || die 14 "none"
rmmod hoistway || die 23 "rmmod"
