#!/bin/sh
# Instructions per 4 KiB read: of one file in memory by loop and by our server with ublk and nbd; of a null disk by ublk.
# module: none
# drivers: ublk_drv nbd loop null_blk
# product: release
# programs: nbd-client
# memory: 2G
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
load nbd || die 10 "nbd"
load loop || die 10 "loop"
load null_blk nr_devices=0 || die 10 "null_blk"
# A disk that moves data without instructions, as disks do.
nullb nullb9 size=64 blocksize=512 irqmode=0 || die 10 "no null disk"
mkdir -p /run
dd if=/dev/urandom of=/tmp/a.img bs=1M count=64 2>/dev/null
losetup /dev/loop0 /tmp/a.img || die 11 "losetup"
cp /tmp/a.img /tmp/b.img
hoistway serve --nbd unix:/tmp/nbd --export b=/tmp/b.img,ublk --export disk=/dev/nullb9,ublk=9 --control /tmp/ctl --scheduler paternoster >/tmp/out 2>/tmp/err &
server=$!
tries=0
until [ "$(grep -c '^serving' /tmp/out)" = 2 ]; do
    tries=$((tries + 1))
    [ $tries -gt 300 ] && { cat /tmp/out /tmp/err; die 12 "not ready"; }
    sleep 0.1
done
ublk=$(sed -n 's/^serving \(.*\): b$/\1/p' /tmp/out)
nbd-client -unix /tmp/nbd /dev/nbd0 -N b -C 1 >/tmp/nbd-out 2>&1 || { cat /tmp/nbd-out /tmp/err; die 13 "nbd-client"; }
hoistway ctl --control /tmp/ctl status >/tmp/status
grep 'has 1 queue' /tmp/status
for disk in loop0 nbd0 "${ublk#/dev/}" nullb9 ublkb9; do
    echo none >/sys/block/$disk/queue/scheduler
    one=$(tester /dev/$disk 1 random 300) && many=$(tester /dev/$disk 32 random 100) || die 20 "tester on $disk"
    echo "= $disk: depth 1 $one, depth 32 $many instructions per read"
    case $disk in
    nullb9 | ublkb9) eval "$(echo "$disk" | tr -d 0-9)_disk=$many" ;;
    *) eval "$(echo "$disk" | tr -d 0-9)_one=$one $(echo "$disk" | tr -d 0-9)_many=$many" ;;
    esac
done
nbd-client -d /dev/nbd0 >/dev/null 2>&1
kill $server
wait $server || { cat /tmp/err; die 14 "the server"; }
# Zero copy (Linux 6.16): at least a quarter below a read whose data is copied twice, the disk's own cost included.
if grep '/dev/ublkb9 has' /tmp/status | grep -q "zero copy"; then
    [ $((ublkb_disk * 4)) -le $((ublkb_many * 3)) ] || die 22 "depth 32: zero copy $ublkb_disk, copies $ublkb_many"
fi
[ $((ublkb_one * 10)) -le $((nbd_one * 7)) ] || die 21 "depth 1: ublk $ublkb_one, nbd $nbd_one"
[ $((ublkb_many * 10)) -le $((nbd_many * 7)) ] || die 21 "depth 32: ublk $ublkb_many, nbd $nbd_many"
