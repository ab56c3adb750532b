#!/bin/sh
# Weights of cgroup v1 divide a busy disk, nested groups as a tree; refused values change nothing.
# The weights (blkio.hoist.weight) are 300:100 and 100:800.
umount /sys/fs/cgroup
mkdir -p /tmp/blkio && mount -t cgroup -o blkio blkio /tmp/blkio || die 12 "this kernel has no blkio of cgroup v1"
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
cd /tmp/blkio && mkdir a b a/c a/d || die 12 "groups"
weight=a/blkio.hoist.weight
for bad in 0 10001 text; do
    echo $bad 2>/dev/null >$weight && die 13 "weight $bad was taken"
done
grep -q 100 $weight || die 13 "a refused weight changed it: $(cat $weight)"
# Reads of these groups so far, at one moment; -v, because od otherwise prints a star for a repeated
# count.
ios() { for group; do echo /tmp/$(basename $group); done | xargs cat | od -v -A n -t d8 -w8; }
# 16 requests outstanding, as in the cases of docs/specifications/kernel-host.md, section 23;
# docs/measured/2026-11-22-kernel-module/README.md has results with 64.
load_in() {
    # A file that an earlier process left would look like the start of this one.
    rm -f /tmp/$(basename $1)
    (
    echo 0 >$1/cgroup.procs
    exec tester /dev/v0 16 stream 6000 /tmp/$(basename $1)
    ) &
}
# Waits until all of them have started, which takes half a second on the debug kernel.
begun() {
    for group; do
        for try in $(seq 100); do
            [ "$(ios $group 2>/dev/null)" -gt 0 ] 2>/dev/null && continue 2
            sleep 0.1
        done
        die 18 "$group does not begin"
    done
}
# window TOLERANCE GROUP PART...: checks that each group gets its PART in 1000 of the total, with an
# error of at most TOLERANCE thousandths of the PART, and 1.
window() {
    local tolerance=$1 groups= parts= sum=0 first last part
    shift
    while [ $# -gt 0 ]; do
        groups="$groups $1" parts="$parts $2"
        shift 2
    done
    begun $groups
    sleep 0.3
    first=$(ios $groups)
    sleep $seconds
    last=$(ios $groups)
    set -- $(echo "$first
$last" | awk -v n=$(echo $groups | wc -w) 'NR <= n { was[NR] = $1; next } { is[NR - n] = $1 - was[NR - n]; sum += is[NR - n] }
        END { for (i = 1; i <= n; i++) printf "%d ", 1000 * is[i] / sum }')
    echo "= $name$groups: $* of 1000, due$parts"
    for part in $parts; do
        [ $(($1 - part)) -le $((part * tolerance / 1000 + 1)) ] && [ $((part - $1)) -le $((part * tolerance / 1000 + 1)) ] ||
            wrong="$wrong $name$groups"
        shift
    done
}
wrong=
# hw-wfq and hw-bfq first: a minute after its start the debug kernel blocks submission for 10 to 18
# ms once a second (see weights.sh).
for name in hw-wfq hw-bfq hw-paternoster; do
    use v0 $name || die 14 "switch to $name"
    cat /sys/block/v0/queue/iosched/nr_requests_advised >/sys/block/v0/queue/nr_requests
    [ -e /sys/block/v0/queue/iosched/low_latency ] && echo 0 >/sys/block/v0/queue/iosched/low_latency
    echo 0 2>/dev/null >/sys/block/v0/queue/iosched/slice_idle
    # Rounds of bfq as in weights.sh: 18 rounds of 100:800 take 20.4 s, in which one slice more or
    # less of the light group is within the tolerance.
    seconds=1.5 long=4
    [ $name = hw-bfq ] && seconds=10 long=20.4
    case $name$(uname -r) in hw-bfq*debug*) long=23 ;; esac
    echo 300 >$weight && echo 100 >b/blkio.hoist.weight || die 15 "weights"
    load_in a
    jobs=$!
    load_in b
    jobs="$jobs $!"
    window 50 a 750 b 250
    echo 100 >$weight && echo 800 >b/blkio.hoist.weight || die 15 "weights"
    seconds=$long window 50 a 111 b 889
    kill $jobs
    wait
    # c and d share what a gets beside b: a quarter, a quarter, a half.
    echo 100 >b/blkio.hoist.weight
    jobs=
    for group in a/c a/d b; do
        load_in $group
        jobs="$jobs $!"
    done
    window 50 a/c 250 a/d 250 b 500
    kill $jobs
    wait
done
use v0 none || die 14 none
rmmod hoistway || die 23 rmmod
[ -z "$wrong" ] || die 21 "shares:$wrong"
