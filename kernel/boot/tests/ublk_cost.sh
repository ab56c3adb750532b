#!/bin/sh
# Instructions per 4 KiB read of one file in memory: loop, and our server by ublk and by nbd.
# module: none
# drivers: ublk_drv nbd loop
# product: release
# programs: nbd-client
# memory: 2G
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
load nbd || die 10 "nbd"
load loop || die 10 "loop"
mkdir -p /run
dd if=/dev/urandom of=/tmp/a.img bs=1M count=64 2>/dev/null
losetup /dev/loop0 /tmp/a.img || die 11 "losetup"
cp /tmp/a.img /tmp/b.img
hoistway serve --nbd unix:/tmp/nbd --export b=/tmp/b.img,ublk --scheduler paternoster >/tmp/out 2>/tmp/err &
server=$!
tries=0
until grep -q '^serving' /tmp/out; do
    tries=$((tries + 1))
    [ $tries -gt 300 ] && { cat /tmp/out /tmp/err; die 12 "not ready"; }
    sleep 0.1
done
ublk=$(sed -n 's/^serving \(.*\): b$/\1/p' /tmp/out)
nbd-client -unix /tmp/nbd /dev/nbd0 -N b -C 1 >/tmp/nbd-out 2>&1 || { cat /tmp/nbd-out /tmp/err; die 13 "nbd-client"; }
for disk in loop0 nbd0 "${ublk#/dev/}"; do
    echo none >/sys/block/$disk/queue/scheduler
    one=$(tester /dev/$disk 1 random 300) && many=$(tester /dev/$disk 32 random 100) || die 20 "tester on $disk"
    echo "= $disk: depth 1 $one, depth 32 $many instructions per read"
    eval "$(echo "$disk" | tr -d 0-9)_one=$one $(echo "$disk" | tr -d 0-9)_many=$many"
done
nbd-client -d /dev/nbd0 >/dev/null 2>&1
kill $server
wait $server || { cat /tmp/err; die 14 "the server"; }
[ $((ublkb_one * 10)) -le $((nbd_one * 7)) ] || die 21 "depth 1: ublk $ublkb_one, nbd $nbd_one"
[ $((ublkb_many * 10)) -le $((nbd_many * 7)) ] || die 21 "depth 32: ublk $ublkb_many, nbd $nbd_many"
