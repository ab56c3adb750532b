#!/bin/sh
# blktrace shows every event of one read once (Q G I D C), and the messages of module and policies.
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 memory_backed=1 size=64 submit_queues=1 hw_queue_depth=8 irqmode=2 completion_nsec=100000 || die 11 "nullb"
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
cd /sys/kernel/tracing || die 12 "tracefs"
echo blk >current_tracer || die 12 "no blk tracer"
use v0 hw-bfq || die 14 "hw-bfq"
echo 1 >/sys/block/v0/trace/enable || die 12 "trace/enable"
echo >trace
tester /dev/v0 1 random 1 >/dev/null || die 20 "tester"
cp trace /tmp/trace
for event in Q G I D C; do
    [ "$(awk -v e=$event '$6 == e || $7 == e || $5 == e' /tmp/trace | wc -l)" = 1 ] || { cat /tmp/trace; die 21 "event $event"; }
done
messages=$(grep -c ' m  *N ' /tmp/trace)
echo "= messages of hw-bfq about one read: $messages"
grep ' m  *N ' /tmp/trace | head -n 5
[ "$messages" -gt 0 ] || { cat /tmp/trace; die 22 "no message of the policy"; }
echo >trace
use v0 hw-noop && grep -q 'hoistway hw-noop on' trace || { cat trace; die 23 "no note of the switch"; }
echo 0 >/sys/block/v0/trace/enable
echo nop >current_tracer
use v0 none || die 14 none
rmmod hoistway || die 24 rmmod
