#!/bin/sh
# A disk that fails now and then gives requests back, which go round the elevator; data stays right under every elevator.
# part: long
load sd_mod || die 10 "sd_mod"
insmod /hoistway.ko || die 10 "insmod"
load scsi_debug dev_size_mb=64 delay=0 max_queue=32 submit_queues=2 statistics=1 every_nth=33 opts=16 || die 10 "scsi_debug that fails"
tries=0
until disk=$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block 2>/dev/null) && [ -b "/dev/$disk" ]; do
    [ $tries -lt 50 ] || die 10 "no disk"
    sleep 0.1
    tries=$((tries + 1))
done
requeued=0
for name in $(tr -d '[]' </sys/block/$disk/queue/scheduler); do
    case $name in hw-*) ;; *) continue ;; esac
    use $disk $name || die 14 "switch of $disk to $name"
    fio --name=verify --filename=/dev/$disk --direct=1 --ioengine=libaio --iodepth=16 --rw=randrw --bsrange=4k-16k --size=1m \
        --verify=crc32c --verify_fatal=1 --eta=never --output=/tmp/fio.log || { tail -n 20 /tmp/fio.log; die 25 "verify under $name, requeued"; }
    stats=$(cat /sys/block/$disk/queue/iosched/stats)
    echo "$stats" | grep -q '^faults 0$' && echo "$stats" | grep -q '^in_driver 0$' || die 26 "faults under $name, requeued"
    count=$(echo "$stats" | awk '/^requeued / { print $2 }')
    [ "$count" -gt 0 ] || die 26 "nothing was given back under $name"
    requeued=$((requeued + count))
done
use $disk none || die 14 none
echo "= $disk failing now and then: $requeued requests given back"
rmmod hoistway || die 23 "rmmod"
dmesg | grep 'hoistway: hw-.* off' | grep -v 'queued 0 in driver 0 spilled 0 faults 0' && die 24 "something was left"
true
