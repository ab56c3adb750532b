#!/bin/sh
# Nested groups share as a tree; groups and processes come and go, and their ids are reused.
# Groups and processes that find no id are still served.
# memory: 1G
load null_blk nr_devices=0 || die 10 "null_blk"
insmod /hoistway.ko groups_max=200 || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
cd /sys/fs/cgroup && echo +io >cgroup.subtree_control || die 12 "no io controller"
number=$(cat /sys/block/v0/dev)
# Reads of these groups so far, at one moment.
ios() { for group; do cat $group/io.stat; done | awk -v disk="$number" '$1 == disk { for (i = 2; i <= NF; i++) if (sub("rios=", "", $i)) print $i }'; }
stat() { awk -v key="$1" '$1 == key { print $2 }' /sys/block/v0/queue/iosched/stats; }
# Reads in a group in a loop, until it is stopped.
load_in() { (
    echo 0 >$1/cgroup.procs
    exec tester /dev/v0 16 stream 4000 >/dev/null
) & }

# p (100) with children q and r (100 each), and s (100) beside p: s gets half, q and r a quarter
# each.
mkdir p s && echo +io >p/cgroup.subtree_control && mkdir p/q p/r || die 12 "groups"
for name in hw-wfq hw-bfq hw-paternoster; do
    use v0 $name || die 14 "switch to $name"
    echo 256 >/sys/block/v0/queue/nr_requests
    [ -e /sys/block/v0/queue/iosched/low_latency ] && echo 0 >/sys/block/v0/queue/iosched/low_latency
    jobs=
    for group in p/q p/r s; do
        load_in $group
        jobs="$jobs $!"
    done
    sleep 1
    # bfq's slices are long: see weights.sh.
    seconds=2
    case $name-$(uname -r) in hw-bfq-*debug*) seconds=10 ;; esac
    set -- $(ios p/q p/r s)
    sleep $seconds
    set -- "$@" $(ios p/q p/r s)
    [ $# = 6 ] || die 20 "no counts: $*"
    q=$(($4 - $1)) r=$(($5 - $2)) s=$(($6 - $3))
    kill $jobs
    wait
    sum=$((q + r + s))
    echo "= $name: p/q $((1000 * q / sum)) p/r $((1000 * r / sum)) s $((1000 * s / sum)) of 1000"
    for share in "$q 25" "$r 25" "$s 50"; do
        set -- $share
        [ $((100 * $1)) -ge $((($2 - 2) * sum)) ] && [ $((100 * $1)) -le $((($2 + 2) * sum)) ] || die 21 "$name: shares $q $r $s"
    done
done
# A weight for this disk alone, besides the one for all disks.
use v0 hw-wfq || die 14 hw-wfq
tester /dev/v0 1 random 1 >/dev/null
echo "$number 300" >s/io.hoist.weight && [ "$(tr '\n' ' ' <s/io.hoist.weight)" = "default 100 $number 300 " ] ||
    die 22 "own weight: $(cat s/io.hoist.weight)"
echo "$number 10001" 2>/dev/null >s/io.hoist.weight && die 22 "own weight 10001"
echo "default 50" >s/io.hoist.weight && [ "$(tr '\n' ' ' <s/io.hoist.weight)" = "default 50 $number 300 " ] || die 22 "default beside it"
echo "$number default" >s/io.hoist.weight && [ "$(cat s/io.hoist.weight)" = "default 50" ] || die 22 "own weight taken back"
echo 100 >s/io.hoist.weight
rmdir p/q p/r p s

# A group that is removed while its requests are queued; thirty that are created, used and removed.
for name in hw-wfq hw-bfq hw-cfq hw-paternoster; do
    use v0 $name || die 14 "switch to $name"
    for round in $(seq 30); do
        mkdir g && load_in g
        job=$!
        sleep 0.02
        echo $job >cgroup.procs
        rmdir g || die 23 "rmdir in use"
        kill $job
        wait
    done
    sleep 0.2
    [ "$(stat groups)" = 1 ] && [ "$(stat faults)" = 0 ] || die 23 "$name: $(stat groups) groups left, $(stat faults) faults"
    # 200 processes with a few reads each.
    for round in $(seq 200); do
        tester /dev/v0 1 random 2 >/dev/null
    done
    [ "$(stat contexts)" -le 3 ] || die 24 "$name: $(stat contexts) issuers left of 200"
    # More groups than ids: the last ones count as their parent.
    for group in $(seq 240); do
        mkdir h$group
        (
            echo 0 >h$group/cgroup.procs
            exec tester /dev/v0 1 random 1 >/dev/null
        ) || die 25 "$name: a read in group $group"
    done
    [ "$(stat groups_refused)" -gt 0 ] && [ "$(stat faults)" = 0 ] || die 25 "$name: refused $(stat groups_refused)"
    echo "= $name: 30 groups and 200 processes came and went; of 240 groups $(stat groups_refused) without an id"
    for group in $(seq 240); do rmdir h$group; done
done
# A group without an id counts as its parent, which has one: 300:100.
use v0 hw-wfq || die 14 hw-wfq
echo 256 >/sys/block/v0/queue/nr_requests
for group in p s $(seq 240 | sed 's/^/h/'); do
    mkdir $group
    (
        echo 0 >$group/cgroup.procs
        exec tester /dev/v0 1 random 1 >/dev/null
    ) || die 28 "a read in group $group"
done
refused=$(stat groups_refused)
echo +io >p/cgroup.subtree_control && mkdir p/c && echo 300 >p/io.hoist.weight || die 28 "p/c"
load_in p/c
jobs=$!
load_in s
jobs="$jobs $!"
sleep 0.5
[ "$(stat groups_refused)" -gt $refused ] || die 28 "p/c has an id"
set -- $(ios p/c s)
sleep 2
set -- "$@" $(ios p/c s)
kill $jobs
wait
p=$(($3 - $1)) s=$(($4 - $2))
echo "= hw-wfq, a group without an id below one of 300, beside one of 100: $p : $s"
[ $((100 * p)) -ge $((285 * s)) ] && [ $((100 * p)) -le $((315 * s)) ] || die 29 "shares of cgroups without an id: $p $s"
use v0 none || die 14 none
rmmod hoistway || die 26 rmmod
dmesg | grep 'hoistway: hw-.* off' | grep -v 'queued 0 in driver 0 spilled 0 faults 0' && die 27 "something was left"
true
