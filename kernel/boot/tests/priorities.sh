#!/bin/sh
# I/O priorities (ionice) reach the policies: classes have precedence, levels divide.
# The policy defines how levels divide.
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
wrong=
# window ELEVATOR LEAST MOST FIRST SECOND: keeps sixteen reads outstanding at each of two priorities
# (CLASS/LEVEL); the part of FIRST, in 1000, must lie between LEAST and MOST.
window() {
    local name=$1 least=$2 most=$3 jobs= share
    shift 3
    use v0 $name || die 14 "switch to $name"
    echo 256 >/sys/block/v0/queue/nr_requests
    [ -e /sys/block/v0/queue/iosched/low_latency ] && echo 0 >/sys/block/v0/queue/iosched/low_latency
    for priority; do
        ionice -c ${priority%/*} -n ${priority#*/} tester /dev/v0 16 stream 6000 /tmp/$(echo $jobs | wc -w) &
        jobs="$jobs $!"
    done
    sleep 0.3
    set -- $(cat /tmp/0 /tmp/1 | od -v -A n -t d8 -w8)
    sleep $seconds
    set -- "$@" $(cat /tmp/0 /tmp/1 | od -v -A n -t d8 -w8)
    kill $jobs
    wait
    [ $# = 4 ] && [ $(($3 + $4)) -gt $(($1 + $2)) ] || die 20 "$name: no counts: $*"
    share=$((1000 * ($3 - $1) / ($3 - $1 + $4 - $2)))
    echo "= $name: $share of 1000, due $least to $most"
    [ $share -ge $least ] && [ $share -le $most ] || wrong="$wrong $name"
}
# The real-time class before the others (paternoster: sixteen real-time requests, then one other),
# the others before the idle class.
seconds=2
for name in hw-mq-deadline hw-cfq hw-bfq; do window $name 990 1000 1/4 2/4; done
window hw-paternoster 936 946 1/4 2/4
for name in hw-mq-deadline hw-cfq hw-bfq hw-paternoster; do window $name 990 1000 2/4 3/0; done
# Levels 0 and 7: cfq has slices of 180 and 40 ms, bfq and paternoster have weights of 80 and 10,
# mq-deadline makes no difference. Slices of cfq and bfq are long.
window hw-mq-deadline 480 520 2/0 2/7
window hw-paternoster 880 898 2/0 2/7
seconds=12
window hw-cfq 790 850 2/0 2/7
window hw-bfq 870 920 2/0 2/7
use v0 none || die 14 none
rmmod hoistway || die 23 rmmod
[ -z "$wrong" ] || die 21 "shares:$wrong"
