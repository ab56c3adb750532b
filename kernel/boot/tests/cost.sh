#!/bin/sh
# Instructions per 4 KiB read on a disk that completes at once: no elevator, ours, the kernel's.
# It also checks that adjacent requests merge.
# kernel: released
load null_blk nr_devices=0 || die 10 "null_blk"
load bfq || die 10 "bfq"
load kyber-iosched || die 10 "kyber"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=64 irqmode=0 queue_mode=2 || die 11 "nullb"
measure() {
    one=$(tester /dev/v0 1 random 300) && random=$(tester /dev/v0 32 random 100) && sequential=$(tester /dev/v0 32 sequential 50) ||
        die 20 "tester under $1"
    echo "= $1: depth 1 $one, depth 32 random $random, depth 32 sequential $sequential"
    eval "$(echo "$1" | tr - _)=$random"
}
for name in none mq-deadline kyber bfq $(tr -d '[]' </sys/block/v0/queue/scheduler | tr ' ' '\n' | grep ^hw-); do
    use v0 $name || die 14 "switch to $name"
    [ $name = none ] || echo 128 >/sys/block/v0/queue/nr_requests
    measure $name
done
# 31 adjacent requests in one submission become one request (null_blk takes at most 255 sectors),
# forwards and backwards.
use v0 hw-mq-deadline || die 14 "hw-mq-deadline"
dispatched() { awk '/^dispatched / { print $2 }' /sys/block/v0/queue/iosched/stats; }
for order in sequential descending; do
    before=$(dispatched)
    tester /dev/v0 31 $order 10 >/dev/null || die 20 "tester $order"
    count=$(($(dispatched) - before))
    echo "= 10 submits of 31 neighbours, $order: $count requests"
    # Opening the disk may read one block.
    [ $count -le 11 ] || die 21 "$order: $count requests instead of 10"
done
echo "= above none: mq-deadline $((mq_deadline - none)), hw-mq-deadline $((hw_mq_deadline - none)); bfq $((bfq - none)), hw-bfq $((hw_bfq - none))"
# All elevators pay for blk-mq's tags, lists and locks: the rest is the policy's cost. Source:
# docs/specifications/kernel-host.md, section 20.
echo "= above the FIFO (hw-noop): mq-deadline $((mq_deadline - hw_noop)), hw-mq-deadline $((hw_mq_deadline - hw_noop)); bfq $((bfq - hw_noop)), hw-bfq $((hw_bfq - hw_noop)), kyber $((kyber - hw_noop)), hw-paternoster $((hw_paternoster - hw_noop))"
# The cost above none that each policy may have on Linux 6.1: the values recorded on 22 November
# 2026 (paternoster's on 25 November, after a change of its design) plus 1 % and 10. Record lower
# values here.
recorded="noop 778 wfq 1379 mq_deadline 1224 linus 3261 nas 3139 anticipatory 2043 deadline 1264 cfq 2955
    uchida 2936 tarasov 2930 bfq 2094 paternoster 1437 kyber 2040"
case $(uname -r) in
6.1.*) ;;
*) recorded= ;;
esac
# These bounds hold on every kernel.
[ $hw_mq_deadline -le $mq_deadline ] || over=" hw-mq-deadline:$((hw_mq_deadline - none))>$((mq_deadline - none)) of the kernel's"
[ $hw_paternoster -le $((kyber + 300)) ] || over="$over hw-paternoster:$((hw_paternoster - none))>$((kyber - none + 300)), kyber's and 300"
# hw-bfq costs at most seven tenths of the kernel's bfq, both above none and above the FIFO.
for base in $none $hw_noop; do
    [ $(((hw_bfq - base) * 10)) -le $(((bfq - base) * 7)) ] || over="$over hw-bfq:$((hw_bfq - base))>0.7*$((bfq - base))"
done
set -- $recorded
while [ $# -gt 1 ]; do
    eval "cost=\$((hw_$1 - none))"
    # Ten more, for a tick of the clock that falls only into this policy's or none's run.
    [ $cost -le $(($2 * 101 / 100 + 10)) ] || over="$over hw-$1:$cost>$2"
    shift 2
done
[ -z "$over" ] || die 22 "instructions per request above what is recorded:$over"
use v0 none || die 14 "none"
rmmod hoistway || die 23 "rmmod"
