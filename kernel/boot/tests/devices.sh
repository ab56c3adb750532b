#!/bin/sh
# Every elevator carries verified data on scsi_debug (own depth limit, passthrough) and virtio-blk.
load virtio_pci && load virtio_blk && [ -b /dev/vda ] || die 10 "virtio-blk"
load sd_mod || die 10 "sd_mod"
load scsi_debug dev_size_mb=64 delay=0 max_queue=32 submit_queues=2 lbpu=1 || die 10 "scsi_debug"
tries=0
while [ ! -b /dev/sda ] && [ $tries -lt 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
insmod /hoistway.ko || die 10 "insmod"
for disk in sda vda; do
    count=0
    for name in $(tr -d '[]' </sys/block/$disk/queue/scheduler); do
        case $name in hw-*) ;; *) continue ;; esac
        use $disk $name || die 14 "switch of $disk to $name"
        fio --name=verify --filename=/dev/$disk --direct=1 --ioengine=libaio --iodepth=32 --rw=randrw --bsrange=4k-64k --size=8m \
            --verify=crc32c --verify_fatal=1 --eta=never --output=/tmp/fio.log || { tail -n 20 /tmp/fio.log; die 20 "verify under $name on $disk"; }
        grep -q '^faults 0$' /sys/block/$disk/queue/iosched/stats || die 22 "faults under $name on $disk"
        count=$((count + 1))
    done
    # Buffered: the page cache writes adjacent blocks, which merge into few requests.
    use $disk hw-mq-deadline || die 14 "hw-mq-deadline"
    dd if=/dev/urandom of=/tmp/written bs=4k count=1024 2>/dev/null && dd if=/tmp/written of=/dev/$disk bs=4k conv=fsync 2>/dev/null ||
        die 21 "buffered writes"
    inserted=$(awk '/^inserted / { print $2 }' /sys/block/$disk/queue/iosched/stats)
    echo "= $disk: $count elevators; 1024 buffered pages in $inserted requests"
    [ "$inserted" -le 128 ] || die 21 "$inserted requests for 1024 pages"
    echo 3 >/proc/sys/vm/drop_caches
    dd if=/dev/$disk bs=4k count=1024 2>/dev/null | cmp - /tmp/written || die 20 "what was written to $disk is not what is read"
    use $disk none || die 14 none
done
rmmod hoistway || die 23 "rmmod"
dmesg | grep 'hoistway: hw-.* off' | grep -v 'queued 0 in driver 0 spilled 0 faults 0' && die 24 "something was left"
true
