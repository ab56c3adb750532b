#!/bin/sh
# Lockdep finds a lock that interrupts take too and that is taken with interrupts enabled.
# kernel: debug
# plant: request.c | _irq(&device->lock) | (&device->lock)
# expects: 98
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=64 submit_queues=1 hw_queue_depth=8 irqmode=2 completion_nsec=20000 || die 11 "nullb"
use v0 hw-mq-deadline || die 14 "hw-mq-deadline"
# One at a time: several could deadlock before lockdep reports.
tester /dev/v0 1 random 50 >/dev/null || die 20 "tester"
dmesg | grep -q 'inconsistent lock state' || die 21 "lockdep found nothing"
