#!/bin/sh
# Verified writes that continue while the host kills and restarts the server many times.
# /lib/order has a list of files for each module; it is empty or missing if the kernel has the driver built in.
for name in virtio_pci virtio_blk; do
    [ ! -s /lib/order/$name ] || load $name || die 10 "$name"
done
[ -e /sys/block/vda ] || die 10 "there is no disk"
loops=3
for word in $(cat /proc/cmdline); do
    case $word in loops=*) eval "$word" ;; esac
done
echo LOADING
fio --name=kill --filename=/dev/vda --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --size=48M --loops="$loops" --iodepth=16 \
    --verify=crc32c --do_verify=1 --verify_fatal=1 --output=/tmp/fio || { cat /tmp/fio; die 11 "fio"; }
echo LOADED
dmesg | grep -i 'i/o error' && die 12 "errors"
exit 0
