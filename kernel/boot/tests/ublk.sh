#!/bin/sh
# Exports as ublk devices: ext4 on it, verified data, weights, recovery after kill -9, removal.
# module: none
# drivers: ublk_drv ext4
# product: debug
# programs: mkfs.ext4 e2fsck
# memory: 2G
# time: real
# seconds: 900
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
load ext4 || die 10 "ext4"
mkdir -p /run /tmp/m
kills=5
grep -q 'kills=' /proc/cmdline && kills=$(sed 's/.*kills=\([0-9]*\).*/\1/' /proc/cmdline)

# serve EXPORT...: starts the server and waits until it is ready.
serve() {
    # The last server's lines must not be taken for this one's.
    : >/tmp/out
    hoistway serve "$@" >/tmp/out 2>/tmp/err &
    server=$!
    local tries=0
    until [ "$(grep -c '^serving' /tmp/out)" -ge "$devices" ]; do
        kill -0 $server 2>/dev/null || { cat /tmp/err; die 11 "the server does not start"; }
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { cat /tmp/out /tmp/err; die 11 "the server is not ready"; }
        sleep 0.1
    done
}
stop() {
    kill $server
    wait $server
    code=$?
    cat /tmp/err
    [ $code = 0 ] || die 12 "the server ends with $code"
}

# A file system: made, used with verified data, checked.
devices=1
truncate -s 256M /tmp/a.img
serve --export a=/tmp/a.img,ublk --control /tmp/ctl
cat /tmp/out
node=$(sed -n 's/^serving \(.*\): a$/\1/p' /tmp/out)
[ -b "$node" ] || die 13 "no node: $node"
[ "$(cat /sys/block/${node#/dev/}/queue/scheduler)" = "[none]" ] || [ "$(cat /sys/block/${node#/dev/}/queue/scheduler | grep -c '\[none\]')" = 1 ] || die 13 "the block layer orders as well"
mkfs.ext4 -q "$node" || die 13 "mkfs"
mount -t ext4 "$node" /tmp/m || die 13 "mount"
fio --name=v --filename=/tmp/m/file --size=16m --rw=randwrite --bs=4k --iodepth=16 --ioengine=libaio --direct=1 --verify=crc32c \
    --output=/tmp/fio || { cat /tmp/fio; die 14 "fio --verify"; }
hoistway ctl --control /tmp/ctl status | grep -F "$node" || die 14 "ctl status does not show the node"
fstrim /tmp/m 2>/dev/null
umount /tmp/m || die 14 "umount"
e2fsck -fn "$node" || die 14 "e2fsck"
stop
[ -e "$node" ] && die 15 "the node is left"
[ -z "$(ls /run/hoistway-root/ublk)" ] || die 15 "a note is left: $(ls /run/hoistway-root/ublk)"
echo "= file system: made, 16 MiB verified, checked, nothing left"

# Recovery: the server is killed under verified writes, and the next one goes on.
serve --export a=/tmp/a.img,ublk --control /tmp/ctl
node=$(sed -n 's/^serving \(.*\): a$/\1/p' /tmp/out)
mount -t ext4 "$node" /tmp/m || die 16 "mount"
round=0
while [ $round -lt "$kills" ]; do
    round=$((round + 1))
    fio --name=w --filename=/tmp/m/w$((round % 4)) --size=8m --rw=randwrite --bs=4k --iodepth=8 --ioengine=libaio --direct=1 \
        --verify=crc32c --fsync=64 --output=/tmp/fio &
    writer=$!
    sleep 0.$((round % 7 + 2))
    kill -9 $server
    wait $server
    serve --export a=/tmp/a.img,ublk --control /tmp/ctl
    grep -q "^serving $node: a" /tmp/out || die 17 "another node: $(cat /tmp/out)"
    wait $writer || { cat /tmp/fio; dmesg | tail -n 20; die 17 "round $round: fio"; }
done
touch /tmp/m/alive || die 18 "the mount is lost"
umount /tmp/m
e2fsck -fn "$node" || die 18 "e2fsck after $kills kills"
echo "= $kills times kill -9 under verified writes: nothing lost, the mount stays"

# A device in use stays when the server ends in good order, and the next server goes on with it.
mount -t ext4 "$node" /tmp/m || die 19 "mount"
kill $server
wait $server
grep "mounted on /tmp/m" /tmp/err || { cat /tmp/err; die 19 "the users are not named"; }
serve --export a=/tmp/a.img,ublk --control /tmp/ctl
echo x >/tmp/m/x && sync && umount /tmp/m || die 19 "umount after the restart"
stop
[ -e "$node" ] && die 19 "the node is left"
echo "= a mounted device waits for the next server"

# Removal under load: the export goes when the load ends.
cat >/tmp/s.toml <<END
[[device]]
name = "d"
[[device.export]]
name = "a"
backing = "/tmp/a.img"
ublk = 5
[[device.export]]
name = "b"
backing = "memory:16MiB"
ublk = true
[control]
unix = "/tmp/ctl2"
END
devices=2
serve /tmp/s.toml
[ -b /dev/ublkb5 ] || die 20 "no /dev/ublkb5"
fio --name=r --filename=/dev/ublkb5 --rw=randrw --bs=4k --iodepth=8 --ioengine=libaio --direct=1 --time_based --runtime=4 --output=/tmp/fio &
load=$!
sleep 1
# Without the first export.
sed -i 3,6d /tmp/s.toml
hoistway ctl --control /tmp/ctl2 reload || { cat /tmp/s.toml; die 20 "reload"; }
wait $load || { cat /tmp/fio; die 20 "the load fails when its export is removed"; }
grep "open in fio" /tmp/err || { cat /tmp/err; die 20 "the user is not named"; }
for _ in $(seq 30); do [ -e /dev/ublkb5 ] || break; sleep 1; done
[ -e /dev/ublkb5 ] && die 20 "not removed when the load had ended"
stop
[ -z "$(ls /dev/ublkb* 2>/dev/null)" ] || die 21 "nodes are left: $(ls /dev/ublkb*)"
echo "= an export in use is removed when its user ends"
