#!/bin/sh
# Local block devices while the server runs: added by ctl, in use, evicted, grown, removed.
# module: none
# drivers: ublk_drv ext4
# product: debug
# programs: mkfs.ext4
# memory: 2G
# time: real
# seconds: 300
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
load ext4 || die 10 "ext4"
mkdir -p /run /tmp/m
truncate -s 64M /tmp/a.img /tmp/b.img
ctl() { timeout 120 hoistway ctl --control /tmp/control "$@" >/tmp/said 2>&1; }
# said TEXT: the last answer has it.
said() { grep -qF -- "$1" /tmp/said || { cat /tmp/said; die 12 "the answer does not say: $1"; }; }

hoistway serve --nbd unix:/tmp/nbd --control /tmp/control --export a=/tmp/a.img >/tmp/out 2>/tmp/err &
server=$!
tries=0
until grep -q '^listening' /tmp/out; do
    kill -0 $server 2>/dev/null || { cat /tmp/err; die 11 "the server does not start"; }
    tries=$((tries + 1))
    [ $tries -gt 600 ] && die 11 "the server is not ready"
    sleep 0.1
done
ctl export add b=/tmp/b.img,ublk=7,weight=300 || { cat /tmp/said; die 13 "it is not added"; }
said "node: /dev/ublkb7"
mkfs.ext4 -q /dev/ublkb7 && mount -t ext4 /dev/ublkb7 /tmp/m || die 13 "it cannot be used"
echo data >/tmp/m/file
echo "= added: /dev/ublkb7 is mounted"
ctl evict --export b && die 14 "the users of a block device were evicted"
said "/dev/ublkb7 is a local block device"
said "/tmp/m"
said "hoistway ctl export remove b"
echo "= evict: refused with the mount point"
truncate -s 128M /tmp/b.img
ctl resize b || { cat /tmp/said; die 15 "it cannot grow"; }
said "size_bytes: 134217728"
sectors=$(cat /sys/block/ublkb7/size)
if grep -qF "Linux 6.16" /tmp/said; then
    [ "$sectors" = 131072 ] || die 15 "it has $sectors sectors although the kernel cannot change it"
    echo "= grown: this kernel cannot tell the device, and the answer says so"
else
    [ "$sectors" = 262144 ] || { cat /tmp/said; die 15 "it has $sectors sectors"; }
    echo "= grown: the device has the new size"
fi
ctl export remove b || { cat /tmp/said; die 16 "it is not removed"; }
said "/dev/ublkb7 goes when nothing uses it any more"
said "/tmp/m"
ctl evict --export b && die 16 "the users of a block device were evicted"
[ "$(cat /tmp/m/file)" = data ] || die 16 "the file is lost"
umount /tmp/m
tries=0
while [ -e /dev/ublkb7 ]; do
    tries=$((tries + 1))
    [ $tries -gt 100 ] && die 17 "the device stays"
    sleep 0.1
done
echo "= removed: it stayed while it was mounted, and then went"
kill $server
wait $server || { cat /tmp/err; die 18 "the server suffered"; }
