#!/bin/sh
# The command line tool with the module: `test --host native` compares, `tune` tries and restores.
# `test` compares our elevators with the kernel's; `tune` tries, sets and restores a scheduler.
# product: release
# memory: 2G
# time: real
# part: long
export LD_LIBRARY_PATH=/bin
load null_blk nr_devices=0 || die 10 "null_blk"
load bfq || die 10 "bfq"
load mq-deadline || die 10 "mq-deadline"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
queue=/sys/block/v0/queue
use v0 none || die 14 "none"
before=$(cat $queue/nr_requests)
is_as_before() { [ "$(cat $queue/scheduler | tr ' ' '\n' | grep '^\[')" = "[none]" ] && [ "$(cat $queue/nr_requests)" = "$before" ]; }

# Four schedulers, two groups, on the kernel's block layer.
hoistway test /dev/v0 --host native -s none -s bfq:low_latency=0,nr_requests=256 -s hw-bfq:low_latency=0 -s hw-paternoster --weights 100,800 \
    -w drr:bs=4k,iodepth=32 --runtime 4 --no-store >/tmp/table 2>/tmp/notes
code=$?
cat /tmp/table /tmp/notes
[ $code = 0 ] || die 20 "test says $code"
grep -E '^(none|bfq|hw-)' /tmp/table | sed 's/^/= /'
grep -E '^hw-paternoster +1 .* [0-4]\.[0-9]% max' /tmp/table || die 20 "hw-paternoster does not keep 100:800 to 5 %"
grep -q 'nr_requests raised from 8 to 256' /tmp/notes || die 20 "the advice on nr_requests is not followed"
is_as_before || die 21 "not put back: $(cat $queue/scheduler $queue/nr_requests)"

# A scheduler of the module is tried, chosen, set and restored.
hoistway tune /dev/v0 --quick --goal fairness --save /tmp/found.json >/tmp/advice 2>/tmp/notes
code=$?
cat /tmp/advice /tmp/notes
[ $code = 0 ] || die 22 "tune says $code"
is_as_before || die 21 "not put back: $(cat $queue/scheduler $queue/nr_requests)"
grep -E '^(none|mq-deadline|bfq|hw-|recommendation)' /tmp/advice | sed 's/^/= /'
grep -q '^recommendation .*: hw-paternoster:nr_requests=256' /tmp/advice || die 22 "tune does not recommend hw-paternoster"
hoistway tune /dev/v0 --from /tmp/found.json --goal fairness --apply || die 23 "--apply"
grep -qF '[hw-paternoster]' $queue/scheduler && [ "$(cat $queue/nr_requests)" = 256 ] ||
    die 23 "not applied: $(cat $queue/scheduler $queue/nr_requests)"
tester /dev/v0 4 random 100 >/dev/null || die 23 "reads under what was applied"
hoistway tune /dev/v0 --undo || die 24 "--undo"
is_as_before || die 24 "not taken back: $(cat $queue/scheduler $queue/nr_requests)"

# Without the module its names are refused with a remedy, and nothing is changed.
rmmod hoistway || die 26 rmmod
hoistway test /dev/v0 --host native -s hw-paternoster --runtime 1 --no-store >/tmp/table 2>/tmp/notes && die 27 "without the module"
grep 'modprobe hoistway' /tmp/notes || die 27 "what it says without the module: $(cat /tmp/notes)"
is_as_before || die 27 "changed: $(cat $queue/scheduler $queue/nr_requests)"
