#!/bin/sh
# Forty switches through every elevator, and changes of depths, under verified load.
# rmmod is refused; a device is removed.
load null_blk nr_devices=0 || die 10 "null_blk"
load mq-deadline || die 10 "mq-deadline"
insmod /hoistway.ko || die 10 "insmod"
insmod /hoistway.ko 2>/dev/null && die 12 "a second insmod went through"
nullb v0 memory_backed=1 size=64 submit_queues=2 hw_queue_depth=32 irqmode=2 completion_nsec=20000 discard=1 || die 11 "nullb"
fio --name=load --filename=/dev/v0 --direct=1 --ioengine=libaio --iodepth=16 --rw=randrw --bsrange=4k-32k --size=4m --loops=1000 \
    --verify=crc32c --verify_fatal=1 --eta=never --output=/tmp/fio.log &
job=$!
sleep 1
names="none mq-deadline $(tr -d '[]' </sys/block/v0/queue/scheduler)"
count=0
while [ $count -lt 40 ]; do
    for name in $names; do
        [ $count -ge 40 ] && break
        use v0 $name || die 14 "switch to $name"
        [ $name = none ] || for depth in 16 256 32; do
            echo $depth >/sys/block/v0/queue/nr_requests || die 15 "nr_requests $depth under $name"
        done
        sleep 0.02
        count=$((count + 1))
    done
done
kill -0 $job 2>/dev/null || { tail -n 20 /tmp/fio.log; die 20 "the load ended too early"; }
kill -INT $job
wait $job
grep -qE 'verify: bad|verify failed|err=[^ 0]' /tmp/fio.log && { tail -n 20 /tmp/fio.log; die 20 "verification"; }
echo "= switches $count"
use v0 hw-bfq || die 14 "hw-bfq"
rmmod hoistway 2>/dev/null && die 16 "rmmod of a busy module went through"
for name in hw-bfq hw-mq-deadline; do
    [ -d /sys/kernel/config/nullb/v1 ] && rmdir /sys/kernel/config/nullb/v1
    nullb v1 memory_backed=1 size=64 submit_queues=2 hw_queue_depth=8 irqmode=2 completion_nsec=1000000 || die 11 "nullb v1"
    use v1 $name || die 14 "$name on v1"
    fio --name=gone --filename=/dev/v1 --direct=1 --ioengine=libaio --iodepth=32 --rw=randrw --bs=4k --runtime=60 --time_based \
        --eta=never --output=/tmp/gone.log &
    job=$!
    sleep 0.5
    echo 0 >/sys/kernel/config/nullb/v1/power || die 17 "power off"
    wait $job && die 18 "fio did not notice that its disk is gone"
    rmdir /sys/kernel/config/nullb/v1
done
use v0 none || die 14 "none"
rmmod hoistway || die 23 "rmmod"
grep -q hoistway /proc/modules && die 23 "still listed"
dmesg | grep 'hoistway: hw-.* off' | grep -v 'queued 0 in driver 0 spilled 0 faults 0' && die 24 "something was left"
true
