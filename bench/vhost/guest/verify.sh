#!/bin/sh
# The disk is written, read back, flushed, discarded and zeroed.
# /lib/order has a list of files for each module; it is empty or missing if the kernel has the driver built in.
for name in virtio_pci virtio_blk; do
    [ ! -s /lib/order/$name ] || load $name || die 10 "$name"
done
[ -e /sys/block/vda ] || die 10 "there is no disk"
queue=/sys/block/vda/queue
[ "$(cat $queue/write_cache)" = "write back" ] || die 11 "the cache is $(cat $queue/write_cache): the guest would never flush"
[ "$(cat /sys/block/vda/serial)" = disk ] || die 12 "the serial number is $(cat /sys/block/vda/serial)"
[ "$(cat /sys/block/vda/size)" = 524288 ] || die 13 "the size is $(cat /sys/block/vda/size) sectors"
fio --name=verify --filename=/dev/vda --direct=1 --ioengine=libaio --rw=randwrite --bsrange=512-128k --size=64M --iodepth=16 \
    --verify=crc32c --do_verify=1 --verify_fatal=1 --fsync=100 --output=/tmp/fio || { cat /tmp/fio; die 14 "fio"; }
printf 'from a guest' | dd of=/dev/vda bs=1M seek=200 2>/dev/null || die 15 "dd"
echo FLUSHING
sleep 2
printf 'from a guest' | dd of=/dev/vda bs=1M seek=200 conv=fsync 2>/dev/null || die 15 "dd"
echo FLUSHED
dd if=/dev/urandom of=/dev/vda bs=1M count=4 seek=100 conv=fsync 2>/dev/null
blkdiscard -o 104857600 -l 4194304 /dev/vda || die 16 "discard"
[ "$(dd if=/dev/vda bs=1M skip=100 count=4 iflag=direct 2>/dev/null | tr -d '\000' | wc -c)" = 0 ] || die 17 "a discarded range of a file reads as something"
dmesg | grep -i 'i/o error' && die 18 "errors"
exit 0
