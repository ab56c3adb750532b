#!/bin/sh
# Two volumes of the example on libublk share a disk by weight: examples/ublk_target.
# module: none
# drivers: ublk_drv null_blk
# crate: examples/ublk_target
# programs: fio
# memory: 2G
# time: real
# seconds: 600
# part: long
load ublk_drv || die 10 "ublk_drv"
# A disk that does 8 requests at a time, each in 16 ms.
load null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=16000000 hw_queue_depth=8 submit_queues=1 gb=1 bs=4096 ||
    die 11 "null_blk"
mkdir -p /run
ublk-target 100=/dev/nullb0 800=/dev/nullb0 >/tmp/out 2>/tmp/err &
target=$!
tries=0
until [ "$(grep -c '^/dev/ublkb' /tmp/out)" = 2 ]; do
    tries=$((tries + 1))
    [ $tries -gt 300 ] && { cat /tmp/out /tmp/err; die 12 "not ready"; }
    sleep 0.1
done
set -- $(sed -n 's/^\(.*\): .*$/\1/p' /tmp/out)
fio --direct=1 --ioengine=libaio --iodepth=16 --rw=randread --bs=4k --time_based --ramp_time=40 --runtime=20 --norandommap \
    --eta=never --output-format=json --output=/tmp/fio --name=a --filename="$1" --name=b --filename="$2" || die 13 "fio"
kill $target
wait $target || { cat /tmp/err; die 14 "the target"; }
[ ! -e "$1" ] && [ ! -e "$2" ] || die 15 "devices are left behind"
set -- $(sed -n '/"read" : {/,/}/s/^ *"total_ios" : \([0-9]*\),*/\1/p' /tmp/fio)
[ $# = 2 ] || { cat /tmp/fio; die 16 "figures: $*"; }
# Which of the two was created first is not known.
[ "$1" -lt "$2" ] || set -- "$2" "$1"
echo "= ublk_target: $1 and $2 reads, $((($1 + $2) / 20)) a second of 500"
ratio=$(($2 * 1000 / $1))
[ $ratio -gt 7200 ] && [ $ratio -lt 8800 ] || die 17 "8 : 1 within 10 %: $ratio thousandths"
