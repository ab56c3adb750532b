#!/bin/sh
# Names, tunables and two devices at once; invalid values are refused with the right errno.
# A second module with the same names is refused, with a line in the log.
# rows: yes
load null_blk nr_devices=0 || die 10 "null_blk"
nullb v0 memory_backed=1 size=16 submit_queues=1 hw_queue_depth=16 irqmode=2 completion_nsec=20000 || die 11 "nullb v0"
nullb v1 memory_backed=1 size=16 submit_queues=1 hw_queue_depth=16 irqmode=2 completion_nsec=20000 || die 11 "nullb v1"
insmod /hoistway.ko || die 12 "insmod"
for name in $(cut -d ' ' -f 1 /rows | sort -u); do
    tr -d '[]' </sys/block/v0/queue/scheduler | tr ' ' '\n' | grep -qx "hw-$name" || die 12 "hw-$name is not offered"
done
# The same elevators under another module's name.
insmod /other.ko 2>/tmp/refused && die 13 "two modules have the same elevators"
grep -qi 'busy' /tmp/refused || { cat /tmp/refused; die 13 "a taken name is not EBUSY"; }
dmesg | grep -q 'hoistway: hw-.*: elv_register failed with -16' || die 13 "no line about the taken name"
# refused FILE VALUE TEXT: checks that the value is refused with this reason.
refused() {
    local said
    echo "$2" 2>/tmp/error >"$1" && return 1
    read -r said </tmp/error
    case $said in *"$3"*) ;; *) return 1 ;; esac
}
# Without programs and subshells in the loop: there are thousands of values, and an emulated fork takes milliseconds.
rows=0 used=
sort -s -k 1,1 /rows >/tmp/rows
while read -r policy row min max how; do
    [ "$policy" = "$used" ] || use v0 hw-$policy || die 14 "switch to hw-$policy"
    used=$policy
    file=/sys/block/v0/queue/iosched/$row
    read -r before <"$file" || die 15 "$policy: no $row"
    rows=$((rows + 1))
    refused "$file" nonsense 'Invalid argument' || die 15 "$policy: $row took nonsense"
    [ "$how" = words ] && continue
    for value in $min $max; do
        echo "$value" >"$file" || die 15 "$policy: $row refuses $value"
    done
    # One value beyond either end, if the type allows it.
    below=$((min - 1)) above=$((max + 1)) beyond=
    [ "$above" -gt "$max" ] && beyond=$above
    [ "$min" -ne 0 ] && [ "$below" -lt "$min" ] && beyond="$below $beyond"
    for value in $beyond; do
        if [ "$how" = refuses ]; then
            refused "$file" "$value" 'out of range' || die 15 "$policy: $row took $value, although $min..$max"
        else
            echo "$value" >"$file" || die 15 "$policy: $row does not clamp $value to $min..$max"
        fi
    done
    [ "$how" = decimal ] || echo "$before" >"$file" || die 15 "$policy: $row refuses its own $before"
done </tmp/rows
echo "= $rows tunables of $(cut -d ' ' -f 1 /rows | sort -u | wc -l) elevators: ends, beyond the ends, nonsense"
# Two devices, two policies; the sysfs files are read meanwhile.
use v0 hw-bfq && use v1 hw-mq-deadline || die 14 "two devices"
(while :; do cat /sys/block/v0/queue/iosched/* /sys/block/v1/queue/iosched/* >/dev/null 2>&1; done) &
reader=$!
tester /dev/v0 16 random 50 >/dev/null & tester /dev/v1 16 random 20 >/dev/null
wait $!
kill $reader
finished() { awk '/^finished / { print $2 }' /sys/block/$1/queue/iosched/stats; }
# 800 reads of v0 and 320 of v1; a few merge.
[ "$(finished v0)" -ge 700 ] && [ "$(finished v1)" -ge 280 ] && [ "$(finished v1)" -le 330 ] ||
    die 16 "statistics of two devices: $(finished v0), $(finished v1)"
echo 0 >/sys/kernel/config/nullb/v0/power && rmdir /sys/kernel/config/nullb/v0
tester /dev/v1 16 random 20 >/dev/null || die 16 "v1 stopped with v0"
use v1 none || die 14 none
rmmod hoistway || die 23 rmmod
