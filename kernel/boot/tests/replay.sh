#!/bin/sh
# Every call of every elevator is recorded and replayed in user space, with identical answers.
# record: 80
# kernel: released
# time: real
# processors: 1
load virtio_pci && load virtio_blk && [ -b /dev/vdb ] || die 10 "no second disk"
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko record=1300000 || die 10 "insmod"
nullb v0 memory_backed=0 size=64 submit_queues=1 hw_queue_depth=8 irqmode=2 completion_nsec=20000 || die 11 "nullb"
mkdir -p /sys/fs/cgroup/a /sys/fs/cgroup/b
echo +io >/sys/fs/cgroup/cgroup.subtree_control
# 100,000 requests, plus those that merge.
requests=100000
for word in $(cat /proc/cmdline); do
    case $word in requests=*) eval "$word" ;; esac
done
at=0
for name in $(tr -d '[]' </sys/block/v0/queue/scheduler); do
    case $name in hw-*) ;; *) continue ;; esac
    use v0 $name || die 14 "switch to $name"
    echo 128 >/sys/block/v0/queue/nr_requests
    echo 300 >/sys/fs/cgroup/a/io.hoist.weight || die 15 "weight"
    jobs=
    for group in a b; do
        for depth in 16 4; do
            (
                echo 0 >/sys/fs/cgroup/$group/cgroup.procs
                exec tester /dev/v0 $depth mixed $((requests * 12 / 10 / 2 / 20))
            ) &
            jobs="$jobs $!"
        done
    done
    sleep 0.1
    echo 50 >/sys/fs/cgroup/a/io.hoist.weight
    for job in $jobs; do wait $job || die 20 "tester under $name"; done
    dd if=/dev/v0 of=/dev/null bs=1M count=4 2>/dev/null
    stats=$(cat /sys/block/v0/queue/iosched/stats)
    echo "$stats" | grep -q '^unrecorded 0$' || die 21 "$name: more calls than there is room for: $(echo "$stats" | grep recorded)"
    echo "$stats" | grep -q '^faults 0$' || die 22 "faults under $name"
    [ "$(echo "$stats" | awk '/^finished / { print $2 }')" -ge $requests ] || die 24 "$name: fewer requests than $requests"
    cat /sys/kernel/debug/hoistway/v0/config /sys/kernel/debug/hoistway/v0/calls | dd of=/dev/vdb bs=1M seek=$at iflag=fullblock conv=fsync 2>/dev/null
    at=$((at + 80))
done
use v0 none || die 14 "none"
rmmod hoistway || die 23 "rmmod"
