#!/bin/sh
# Reads of 4 KiB by fio, 32 in flight, on a loop device over tmpfs and on null_blk, under each scheduler of the kernel.
load null_blk nr_devices=0 || die 10 "null_blk"
load loop || die 10 loop
load bfq || die 10 "bfq"
load kyber-iosched || die 10 "kyber"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=128 irqmode=0 queue_mode=2 || die 11 "nullb"
dd if=/dev/zero of=/dev/shm/img bs=1M count=64 2>/dev/null
losetup /dev/loop0 /dev/shm/img || die 12 losetup
for disk in loop0 v0; do
for name in none mq-deadline kyber bfq; do
    use $disk $name || die 14 "switch"
    fio --name=x --filename=/dev/$disk --ioengine=libaio --direct=1 --rw=randread --bs=4k --iodepth=32 --size=64m --number_ios=12000 --norandommap --output-format=terse --terse-version=3 >/tmp/o 2>&1
    echo "= $disk $name iops $(tail -1 /tmp/o | cut -d';' -f8) ctx $(tail -1 /tmp/o | cut -d';' -f90)"
done
done
