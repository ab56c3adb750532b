#!/bin/sh
# Memory runs short at every allocation of a switch: it succeeds or fails cleanly, without leaks.
# A switch succeeds or returns ENOMEM, and leaves a working disk.
# kernel: debug
# words: kmemleak=on
load null_blk nr_devices=0 || die 10 "null_blk"
load kyber-iosched || die 10 "kyber"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 memory_backed=1 size=16 submit_queues=1 hw_queue_depth=16 irqmode=2 completion_nsec=20000 || die 11 "nullb"
echo +io >/sys/fs/cgroup/cgroup.subtree_control || die 12 "no io controller"
for group in a b; do
    mkdir /sys/fs/cgroup/$group
    (
        echo 0 >/sys/fs/cgroup/$group/cgroup.procs
        exec tester /dev/v0 1 random 1 >/dev/null
    ) || die 12 "a read in group $group"
done
fail=/sys/kernel/debug/failslab
echo N >$fail/ignore-gfp-wait && echo 0 >$fail/verbose || die 10 "no failslab"

# Opened before memory runs short: a failed redirection skips its command.
exec 9>/dev/null
# after NAME: checks a switch to it that may have failed: it is active or none is, and the disk
# works.
after() {
    now=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/block/v0/queue/scheduler)
    case $now in
    $1) on=$((on + 1)) ;;
    none) off=$((off + 1)) ;;
    *) die 20 "neither $1 nor none: $now" ;;
    esac
    tester /dev/v0 8 random 2 >/dev/null || die 21 "reads after a switch to $1 that ended in $now"
}

for name in hw-noop hw-bfq hw-paternoster kyber; do
    # This process opens the file and writes itself, so that the failing allocation is counted in
    # it.
    nth=0 on=0 off=0 left=0
    while [ "${left:-0}" = 0 ]; do
        nth=$((nth + 1))
        use v0 none || die 14 "none"
        echo $nth >/proc/self/fail-nth
        echo $name 2>&9 >/sys/block/v0/queue/scheduler
        left=
        read left 2>&9 </proc/self/fail-nth
        echo 0 >/proc/self/fail-nth
        after $name
        [ $nth -lt 3000 ] || die 22 "no end of allocations under $name"
    done
    echo "= $name: $nth allocations of a switch failed in turn: $off left none, $on did without"
    [ $off -gt 0 ] || die 22 "$name: no switch failed"
    # Several failures at once, including allocations that are retried, such as a group's data.
    on=0 off=0
    echo 5 >$fail/probability && echo 1000000 >$fail/times && echo Y >$fail/task-filter || die 10 "failslab"
    for round in $(seq 60); do
        use v0 none || die 14 "none"
        echo 1 >/proc/self/make-it-fail
        echo $name 2>&9 >/sys/block/v0/queue/scheduler
        until echo 0 2>&9 >/proc/self/make-it-fail; do :; done
        after $name
    done
    echo 0 >$fail/probability
    echo "= $name: one allocation of twenty failed: $off of 60 switches left none"
done
dmesg | grep -q 'hoistway: hw-.*: no memory for tables' || die 23 "no line about memory"
use v0 none || die 14 "none"
# Twice, because memory that was just freed may still be referenced.
sleep 6
echo scan >/sys/kernel/debug/kmemleak && sleep 1 && echo scan >/sys/kernel/debug/kmemleak || die 10 "no kmemleak"
cat /sys/kernel/debug/kmemleak >/tmp/leaks
grep -q hoist /tmp/leaks && { head -n 60 /tmp/leaks; die 24 "memory was lost"; }
# Linux before 6.2 leaks a reference to an elevator whose tags cannot be allocated, also to the
# kernel's own ones; then neither module can be unloaded.
refs() { cat /sys/module/$1/refcnt; }
if [ "$(refs kyber_iosched)" = 0 ]; then
    rmmod hoistway || die 25 "rmmod"
else
    echo "= this kernel itself has lost $(refs kyber_iosched) references to kyber, and $(refs hoistway) to hoistway"
fi
