#!/bin/sh
# KASAN finds a write to memory after it was freed.
# kernel: debug
# plant: device.c | kfree(device); | kfree(device); WRITE_ONCE(device->q, NULL);
# expects: 98
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=64 submit_queues=1 hw_queue_depth=8 irqmode=2 completion_nsec=20000 || die 11 "nullb"
use v0 hw-mq-deadline && use v0 none || die 14 "hw-mq-deadline and none"
dmesg | grep -q 'BUG: KASAN: .*hoistway' || die 21 "KASAN found nothing"
