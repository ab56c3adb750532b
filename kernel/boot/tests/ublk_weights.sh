#!/bin/sh
# Two ublk devices of one disk keep their weights under fio.
# module: none
# drivers: ublk_drv
# product: debug
# memory: 2G
# time: real
# seconds: 600
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
mkdir -p /run
truncate -s 256M /tmp/a.img /tmp/b.img
for scheduler in paternoster; do
    hoistway serve --export light=model:sata,/tmp/a.img,weight=100,ublk --export heavy=model:sata,/tmp/b.img,weight=800,ublk --control /tmp/ctl \
        --scheduler $scheduler >/tmp/out 2>/tmp/err &
    server=$!
    tries=0
    until [ "$(grep -c '^serving' /tmp/out)" = 2 ]; do
        tries=$((tries + 1))
        [ $tries -gt 300 ] && { cat /tmp/out /tmp/err; die 11 "not ready"; }
        sleep 0.1
    done
    light=$(sed -n 's/^serving \(.*\): light$/\1/p' /tmp/out)
    heavy=$(sed -n 's/^serving \(.*\): heavy$/\1/p' /tmp/out)
    fio --direct=1 --ioengine=libaio --iodepth=16 --rw=randread --bs=4k --time_based --ramp_time=10 --runtime=40 --norandommap \
        --output-format=json --output=/tmp/fio --name=light --filename="$light" --name=heavy --filename="$heavy" || die 12 "fio"
    kill $server
    wait $server || { cat /tmp/err; die 13 "the server"; }
    set -- $(sed -n '/"read" : {/,/}/s/^ *"total_ios" : \([0-9]*\),*/\1/p' /tmp/fio)
    [ $# = 2 ] || { cat /tmp/fio; die 14 "figures: $*"; }
    echo "= $scheduler: light $1, heavy $2 I/Os: 1:$(($2 * 100 / $1 / 100)).$(($2 * 100 / $1 % 100)) of 1:8"
    ratio=$(($2 * 1000 / $1))
    [ $ratio -gt 7600 ] && [ $ratio -lt 8400 ] || die 15 "$scheduler is off: $ratio thousandths"
done
