#!/bin/sh
# A ublk device whose requests' memory the disk uses: verified data of all sizes, recovery after kill -9, growth.
# module: none
# drivers: ublk_drv
# product: debug
# memory: 2G
# time: real
# seconds: 600
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
load virtio_blk || load virtio_pci
mkdir -p /run
kills=5
grep -q 'kills=' /proc/cmdline && kills=$(sed 's/.*kills=\([0-9]*\).*/\1/' /proc/cmdline)

serve() {
    : >/tmp/out
    hoistway serve "$@" >/tmp/out 2>/tmp/err &
    server=$!
    local tries=0
    until grep -q '^serving' /tmp/out; do
        kill -0 $server 2>/dev/null || { cat /tmp/err; die 11 "the server does not start"; }
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { cat /tmp/out /tmp/err; die 11 "the server is not ready"; }
        sleep 0.1
    done
}
# verified NAME OPTION...: writes and reads back through the device; O_DIRECT with memory that is aligned to sectors only.
verified() {
    local name=$1
    shift
    fio --name="$name" --filename=/dev/ublkb3 --size=48m --direct=1 --ioengine=libaio --verify=crc32c "$@" \
        --output=/tmp/fio || { cat /tmp/fio; dmesg | tail -n 20; die 14 "fio $name"; }
}

disk=/dev/vda
[ -b $disk ] || die 12 "no disk"
serve --export a=$disk,ublk=3 --control /tmp/ctl
hoistway ctl --control /tmp/ctl status --json >/tmp/status || die 13 "status"
queues=$(sed -n 's/.*"queues": *\([0-9]*\).*/\1/p' /tmp/status | head -n 1)
[ "$queues" = 2 ] || { cat /tmp/status; die 13 "queues: $queues"; }
hoistway ctl --control /tmp/ctl status >/tmp/text
grep '/dev/ublkb3 has 2 queues' /tmp/text || { cat /tmp/text; die 13 "the text does not say the features"; }
if grep -q zero_copy /tmp/status; then way="zero copy"; else way="copies"; fi
# Zero copy needs Linux 6.16.
case $(uname -r) in 6.1.* | 6.12.*) [ "$way" = copies ] ;; *) [ "$way" = "zero copy" ] ;; esac || die 13 "$way with $(uname -r)"
verified small --rw=randwrite --bs=512-16k --bsrange=512-16k --blockalign=512 --iodepth=32 --iomem_align=512
verified large --rw=write --bs=1m --iodepth=4
verified mixed --rw=randrw --bs=4k --iodepth=16 --numjobs=2 --size=16m --offset_increment=16m
fio --name=d --filename=/dev/ublkb3 --rw=randtrim --bs=64k --size=16m --direct=1 --ioengine=libaio --output=/tmp/fio || { cat /tmp/fio; die 14 "trims"; }
# What lies on the disk is what the device shows.
sync
echo 3 >/proc/sys/vm/drop_caches
cmp -n 50331648 $disk /dev/ublkb3 || die 15 "the device differs from its disk"
echo "= $way: data of 512 bytes to 1 MiB verified, two queues"

round=0
while [ $round -lt "$kills" ]; do
    round=$((round + 1))
    fio --name=w --filename=/dev/ublkb3 --size=8m --offset=$((round % 4 * 8))m --rw=randwrite --bs=4k --iodepth=16 --ioengine=libaio \
        --direct=1 --verify=crc32c --fsync=64 --output=/tmp/fio &
    writer=$!
    sleep 0.$((round % 7 + 2))
    kill -9 $server
    wait $server
    serve --export a=$disk,ublk=3 --control /tmp/ctl
    wait $writer || { cat /tmp/fio; dmesg | tail -n 20; die 17 "round $round: fio"; }
done
echo "= $kills times kill -9 under verified writes: nothing lost"
kill $server
wait $server || { cat /tmp/err; die 18 "the server"; }
[ -e /dev/ublkb3 ] && die 18 "the node is left"
true
