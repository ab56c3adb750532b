#!/bin/sh
# Loads, lists its elevators, moves verified data under noop and mq-deadline, switches under load, unloads.
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 memory_backed=1 size=64 submit_queues=2 hw_queue_depth=32 irqmode=2 completion_nsec=20000 discard=1 || die 11 "nullb"
cat /sys/block/v0/queue/scheduler
verify() {
    fio --name=verify --filename=/dev/v0 --direct=1 --ioengine=libaio --iodepth=32 --rw=randrw --bsrange=4k-64k --size=8m \
        --verify=crc32c --verify_fatal=1 --eta=never --output=/tmp/fio.log "$@" || { tail -n 20 /tmp/fio.log; return 1; }
}
for name in hw-noop hw-mq-deadline; do
    use v0 $name || die 14 "switch to $name"
    verify || die 20 "verify under $name"
    cat /sys/block/v0/queue/iosched/stats | head -n 12 | tr '\n' ' '
    echo
done
rmmod hoistway 2>/dev/null && die 23 "rmmod of a busy module went through"
use v0 none || die 14 "back to none"
rmmod hoistway || die 23 "rmmod"
