#!/bin/sh
# Verified writes that last longer than many servers.
load virtio_pci || die 10 "virtio_pci"
load virtio_blk || die 10 "virtio_blk"
echo LOADING
fio --name=kill --filename=/dev/vda --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --size=48M --loops=3 --iodepth=16 \
    --verify=crc32c --do_verify=1 --verify_fatal=1 --output=/tmp/fio || { cat /tmp/fio; die 11 "fio"; }
echo LOADED
dmesg | grep -i 'i/o error' && die 12 "errors"
exit 0
