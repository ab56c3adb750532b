#!/bin/sh
# Reads or writes under one elevator on a null_blk disk that completes each request at once, and the
# addresses of the kernel's symbols (kernel/boot/profile).
for word in $(cat /proc/cmdline); do
    case $word in elevator=* | limiter=* | batches=* | depth=* | pattern=*) eval "$word" ;; esac
done
load virtio_pci && load virtio_blk && [ -b /dev/vdb ] || die 10 "no second disk"
load null_blk nr_devices=0 || die 10 "null_blk"
load bfq || die 10 "bfq"
load kyber-iosched || die 10 "kyber"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=64 irqmode=0 queue_mode=2 || die 11 "nullb"
use v0 "$elevator" || die 14 "switch to $elevator"
[ "$elevator" = none ] || echo 128 >/sys/block/v0/queue/nr_requests
if [ -n "$limiter" ]; then
    echo +io >/sys/fs/cgroup/cgroup.subtree_control && mkdir /sys/fs/cgroup/a && limit v0 "$limiter" a || die 15 "$limiter"
    echo 0 >/sys/fs/cgroup/a/cgroup.procs || die 16 "no group"
fi
echo "= $elevator $(tester /dev/v0 "$depth" "$pattern" "$batches")"
dd if=/proc/kallsyms of=/dev/vdb bs=64k conv=fsync 2>/dev/null
