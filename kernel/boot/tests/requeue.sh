#!/bin/sh
# A disk that requeues 3 % of its requests; data stays correct under every elevator.
# By turns, null_blk asks to be called again and returns the request through the elevator.
# kernel: debug
# time: real
load null_blk nr_devices=0 requeue=1,3,0,-1 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 memory_backed=1 size=64 submit_queues=2 hw_queue_depth=32 irqmode=2 completion_nsec=20000 discard=1 || die 11 "nullb"
requeued=0 inserted=0
stat() { awk -v key="$1" '$1 == key { print $2 }' /sys/block/v0/queue/iosched/stats; }
for name in $(tr -d '[]' </sys/block/v0/queue/scheduler); do
    case $name in hw-*) ;; *) continue ;; esac
    use v0 $name || die 14 "switch to $name"
    fio --name=verify --filename=/dev/v0 --direct=1 --ioengine=libaio --iodepth=32 --rw=randrw --bsrange=4k-16k --size=4m \
        --verify=crc32c --verify_fatal=1 --eta=never --output=/tmp/fio.log || { tail -n 20 /tmp/fio.log; die 25 "verify under $name"; }
    [ "$(stat faults)" = 0 ] && [ "$(stat in_driver)" = 0 ] && [ "$(stat queued)" = 0 ] ||
        die 26 "$name: faults $(stat faults), in driver $(stat in_driver), queued $(stat queued)"
    [ "$(stat requeued)" -gt 0 ] || die 26 "nothing was given back under $name"
    requeued=$((requeued + $(stat requeued))) inserted=$((inserted + $(stat inserted)))
done
use v0 none || die 14 none
echo "= $requeued requests given back, $inserted inserted"
rmmod hoistway || die 23 "rmmod"
dmesg | grep 'hoistway: hw-.* off' | grep -v 'queued 0 in driver 0 spilled 0 faults 0' && die 24 "something was left"
true
