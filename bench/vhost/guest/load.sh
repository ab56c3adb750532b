#!/bin/sh
# Random reads until the time is over, or the machine is ended.
# /lib/order has a list of files for each module; it is empty or missing if the kernel has the driver built in.
for name in virtio_pci virtio_blk; do
    [ ! -s /lib/order/$name ] || load $name || die 10 "$name"
done
[ -e /sys/block/vda ] || die 10 "there is no disk"
for word in $(cat /proc/cmdline); do
    case $word in seconds=* | depth=*) eval "$word" ;; esac
done
echo LOADING
fio --name=load --filename=/dev/vda --direct=1 --ioengine=libaio --rw=randread --bs=4k --iodepth="$depth" --time_based \
    --runtime="$seconds" --norandommap --output-format=json --output=/tmp/fio || { cat /tmp/fio; die 11 "fio"; }
set -- $(sed -n '/"read" : {/,/}/s/^ *"\(total_ios\|iops\)" : \([0-9]*\).*/\1 \2/p' /tmp/fio)
while [ $# -gt 1 ]; do
    eval "$1=$2"
    shift 2
done
echo "LOADED $total_ios $iops"
exit 0
