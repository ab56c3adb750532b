#!/bin/sh
# Every elevator of the module carries verified data, merges adjacent requests, and loses nothing.
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 memory_backed=1 size=64 submit_queues=2 hw_queue_depth=32 irqmode=2 completion_nsec=20000 discard=1 || die 11 "nullb"
for name in $(tr -d '[]' </sys/block/v0/queue/scheduler); do
    case $name in hw-*) ;; *) continue ;; esac
    use v0 $name || die 14 "switch to $name"
    echo 64 >/sys/block/v0/queue/nr_requests || die 15 "nr_requests under $name"
    fio --name=verify --filename=/dev/v0 --direct=1 --ioengine=libaio --iodepth=32 --rw=randrw --bsrange=4k-64k --size=8m \
        --verify=crc32c --verify_fatal=1 --eta=never --output=/tmp/fio.log || { tail -n 20 /tmp/fio.log; die 20 "verify under $name"; }
    for file in /sys/block/v0/queue/iosched/*; do cat $file >/dev/null || die 21 "cat $file"; done
    echo "= $name $(grep -E '^(inserted|finished|bios_merged|absorbed|holds|timers|contexts|faults) ' /sys/block/v0/queue/iosched/stats | tr '\n' ' ')"
    grep -q '^faults 0$' /sys/block/v0/queue/iosched/stats || die 22 "faults under $name"
done
use v0 none || die 14 "back to none"
rmmod hoistway || die 23 "rmmod"
dmesg | grep 'hoistway: hw-.* off' | grep -v 'queued 0 in driver 0 spilled 0 faults 0' && die 24 "something was left"
true
