#!/bin/sh
# The device is kept idle for a reader with think time, without polling; the table may overflow.
# Requests beyond the table wait in order and are served.
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko slots_max=8 || die 10 "insmod"
nullb v0 size=64 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=200000 || die 11 "nullb"
stat() { awk -v key="$1" '$1 == key { print $2 }' /sys/block/v0/queue/iosched/stats; }
# Eight slots, and up to 64 requests at one time; the depth grows and shrinks under load.
for name in hw-noop hw-mq-deadline hw-bfq hw-paternoster; do
    use v0 $name || die 14 "switch to $name"
    tester /dev/v0 64 random 40 >/dev/null &
    for depth in 16 256 32 64 256; do
        echo $depth >/sys/block/v0/queue/nr_requests || die 15 "nr_requests $depth"
        sleep 0.02
    done
    wait $! || die 20 "tester under $name"
    [ "$(stat spilled)" -gt 0 ] && [ "$(stat faults)" = 0 ] || die 21 "$name: spilled $(stat spilled), faults $(stat faults)"
    [ "$(stat queued)" = 0 ] && [ "$(stat in_driver)" = 0 ] || die 21 "$name: something is left"
    echo "= $name with 8 slots: spilled $(stat spilled)"
done
use v0 none && rmmod hoistway && insmod /hoistway.ko || die 16 "again"
echo 0 >/sys/kernel/config/nullb/v0/power && rmdir /sys/kernel/config/nullb/v0

# A reader that thinks for 3 ms beside one that keeps 16 requests outstanding, on a disk that
# serves 4 requests at a time in 2 ms each.
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
echo 1 >/sys/block/v0/queue/rotational
wrong=
thinker() {
    fio --name=t --filename=/dev/v0 --direct=1 --ioengine=psync --rw=randread --bs=4k --thinktime=3000 --time_based --runtime=3 \
        --eta=never --output=/tmp/t.log --output-format=terse --terse-version=3
    cut -d ';' -f 8 /tmp/t.log
}
for name in hw-cfq hw-bfq; do
    for idle in 20 0; do
        use v0 $name || die 14 "switch to $name"
        echo 256 >/sys/block/v0/queue/nr_requests
        [ -e /sys/block/v0/queue/iosched/low_latency ] && echo 0 >/sys/block/v0/queue/iosched/low_latency
        echo $idle >/sys/block/v0/queue/iosched/slice_idle
        [ $name = hw-cfq ] && echo $idle >/sys/block/v0/queue/iosched/group_idle
        alone=$(thinker)
        tester /dev/v0 16 stream 4000 >/dev/null &
        job=$!
        calls=$(stat dispatch_calls) dispatched=$(stat dispatched) holds=$(stat holds) timers=$(stat timers) throttled=$(stat throttled)
        beside=$(thinker)
        calls=$(($(stat dispatch_calls) - calls)) dispatched=$(($(stat dispatched) - dispatched))
        holds=$(($(stat holds) - holds)) timers=$(($(stat timers) - timers))
        throttled=$(($(stat throttled) - throttled))
        kill $job
        wait
        echo "= $name slice_idle $idle: alone $alone/s, beside 16 $beside/s; dispatch calls $calls, dispatched $dispatched, holds $holds, throttled $throttled, timers $timers"
        if [ $idle = 0 ]; then
            [ $timers = 0 ] || die 22 "$name: timers without idling"
            # cfq gives little to an issuer for which it does not idle; bfq injects requests of
            # others instead of idling, and gives the issuer its share either way.
            case $name in
            hw-cfq) [ $waited_for -ge $((2 * beside)) ] || die 22 "$name: waiting brings $waited_for reads, no waiting $beside" ;;
            *) [ $((100 * beside)) -ge $((40 * alone)) ] || die 22 "$name: $beside of $alone reads" ;;
            esac
        else
            [ $holds -gt 0 ] || die 22 "$name: nothing was held"
            # After a hold blk-mq must not dispatch again before an event: no polling.
            [ $calls -le $((dispatched + throttled + 2 * holds + timers + 20)) ] || wrong="$wrong $name:$calls"
            waited_for=$beside
        fi
    done
done
use v0 none || die 14 none
rmmod hoistway || die 23 rmmod
[ -z "$wrong" ] || die 24 "calls of dispatch:$wrong"
