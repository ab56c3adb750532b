#!/bin/sh
# hoistway top --metrics: requests, shares and times of two groups as fio counts them; what it costs; everything is switched off after it.
# product: debug
# memory: 2G
# part: long
load null_blk nr_devices=0 || die 10 "null_blk"
load bfq || die 10 "bfq"
mkdir -p /run
nullb v0 size=1024 submit_queues=1 hw_queue_depth=64 irqmode=2 completion_nsec=3000000 || die 11 "nullb"
nullb v1 size=1024 submit_queues=1 hw_queue_depth=64 irqmode=2 completion_nsec=60000 || die 11 "nullb"
nullb v2 size=1024 submit_queues=1 hw_queue_depth=64 irqmode=2 completion_nsec=3000000 || die 11 "nullb"
use v1 none && use v2 none || die 14 "none"
cd /sys/fs/cgroup && echo +io >cgroup.subtree_control && mkdir a b || die 12 "no io controller"
use v0 bfq || die 14 "bfq"
echo 300 >a/io.bfq.weight || die 15 "weight"
ifconfig lo 127.0.0.1 up || die 16 "loopback"
export LD_LIBRARY_PATH=/bin
hoistway top --metrics tcp:127.0.0.1:9891 2>/tmp/said &
exporter=$!
scrape() { wget -q -O /tmp/metrics http://127.0.0.1:9891/metrics; }
for try in $(seq 100); do
    scrape && break
    sleep 0.2
done
sed 's/^/= /' /tmp/said
[ -s /tmp/metrics ] || die 17 "no metrics: $(cat /tmp/said)"
# value NAME LABELS: that of one series.
value() { grep -F "$1{$2}" /tmp/metrics | awk '{ print $NF }'; }
# load_in GROUP DISK DIRECTION DEPTH OPTION...: fio in a group.
load_in() {
    local group=$1 disk=$2 direction=$3 depth=$4
    shift 4
    (
        echo 0 >$group/cgroup.procs
        exec fio --name=$group --filename=/dev/$disk --direct=1 --ioengine=libaio --iodepth=$depth --bs=4k --rw=$direction --norandommap \
            "$@" --eta=never --output=/tmp/$group.fio --output-format=terse --terse-version=3
    ) &
    jobs="$jobs $!"
}
load_in a v0 randread 4 --runtime=4 --time_based
load_in b v0 randwrite 4 --runtime=4 --time_based
sleep 1.3
scrape
sleep 1.3
scrape
grep -E 'hoistway_block_(group_(weight|share|requests)|device_(scheduler|queue|latency))' /tmp/metrics | grep -v '^#' | sed 's/^/= /' | grep -v '"v1"\|ram\|vd'
[ "$(value hoistway_block_group_weight 'device="v0",group="a"')" = 300 ] || die 20 "weight"
due=$(value hoistway_block_group_share_due_ratios 'device="v0",group="a"')
# The rest is due to those who opened the disk.
awk -v due="$due" 'BEGIN { exit !(due > 0.74 && due <= 0.75) }' || die 20 "a is due $due of the disk"
wait $jobs
# Without a scheduler, the time in the device is all of fio's.
jobs=
load_in a v2 randread 4 --number_ios=5000
load_in b v1 randwrite 1 --number_ios=5000
wait $jobs
scrape
# Percentiles of fio (terse version 3: 50, 99 of reads are fields 23 and 30, of writes 64 and 71, as 50.000000%=123) and ours:
# the bucket in which the rank is.
for line in "a read 50 23 v2" "a read 99 30 v2" "b write 50 64 v1" "b write 99 71 v1"; do
    set -- $line
    theirs=$(cut -d ';' -f $4 /tmp/$1.fio | sed 's/.*=//')
    ours=$(grep -F "hoistway_block_group_service_seconds_bucket{" /tmp/metrics | grep -F "device=\"$5\",group=\"$1\",operation=\"$2\"" |
        sed 's/.*le="\([^"]*\)".* \([0-9]*\)$/\1 \2/' | awk -v part=$3 '{ bound[NR] = $1; count[NR] = $2 }
            END { for (i = 1; i <= NR; i++) if (count[i] * 100 >= part * count[NR]) { print 1e6 * bound[i - 1], 1e6 * bound[i]; exit } }')
    echo "= $1 $2 p$3: fio $theirs us, ours above and up to: $ours us"
    set -- $theirs $ours
    # The same bucket, or the next: fio's time includes the way to the queue and back. Its steps are 1.6 % wide.
    awk -v t=$1 -v low=$2 -v high=$3 'BEGIN { exit !(t * 1.02 >= low && t <= high * 2) }' || wrong="$wrong $line"
done
for line in "v2 a read" "v1 b write"; do
    set -- $line
    requests=$(value hoistway_block_group_requests_total "device=\"$1\",group=\"$2\",operation=\"$3\"")
    times=$(value hoistway_block_group_service_seconds_count "device=\"$1\",group=\"$2\",operation=\"$3\"")
    echo "= $2: $requests requests, $times times of 5000"
    [ "$requests" = 5000 ] && [ "$times" -ge 4990 ] || die 21 "counts"
done
[ "$(value hoistway_block_device_latency_events_lost_total 'device="v1"')" = 0 ] || die 22 "events were lost"
# What it costs at 10,000 reads a second: in the kernel, by the time of a read with and without it; in the process, by its time
# on the processor, of which the disk's interrupts are a part. A nanosecond is an instruction.
with=$(tester /dev/v1 32 random 1000)
spent() { cat /proc/$exporter/task/*/schedstat | awk '{ sum += $1 } END { printf "%d", sum / 1000 }'; }
set -- $(spent)
fio --name=c --filename=/dev/v1 --direct=1 --ioengine=libaio --iodepth=32 --bs=4k --rw=randread --norandommap --rate_iops=10000 \
    --number_ios=100000 --eta=never --output=/tmp/c.fio --output-format=terse --terse-version=3
own=$((($(spent) - $1) / 100))
kill $exporter
wait $exporter
[ $? = 0 ] || die 23 "the exporter ended with an error: $(cat /tmp/said)"
without=$(tester /dev/v1 32 random 1000)
cost=$((own + with - without))
echo "= at $(cut -d ';' -f 8 /tmp/c.fio) reads/s: $cost instructions a read, $own of them in the process ($without -> $with in the kernel)"
for disk in v0 v1; do [ "$(cat /sys/block/$disk/trace/enable)" = 0 ] || die 24 "$disk is still traced"; done
[ "$(cat /sys/kernel/debug/tracing/options/blk_cgroup)" = 0 ] || die 24 "blk_cgroup is still set"
# Killed, its watcher switches everything off.
hoistway top --metrics tcp:127.0.0.1:9892 2>/tmp/said &
exporter=$!
for try in $(seq 100); do
    [ "$(cat /sys/block/v0/trace/enable)" = 1 ] && break
    sleep 0.2
done
kill -9 $exporter
for try in $(seq 100); do
    [ "$(cat /sys/block/v0/trace/enable)" = 0 ] && break
    sleep 0.2
done
[ "$(cat /sys/block/v0/trace/enable)" = 0 ] || die 25 "still traced after a kill"
# A hundredth of a processor that does three in a nanosecond; the program is the debug build.
[ $cost -gt 0 ] && [ $cost -le 3000 ] || die 27 "too expensive"
[ -z "$wrong" ] || die 26 "percentiles:$wrong"
