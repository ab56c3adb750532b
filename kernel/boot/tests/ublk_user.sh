#!/bin/sh
# A user without privileges serves a ublk device: udev's part, verified data, removal, kill -9 while it is open.
# module: none
# drivers: ublk_drv
# product: debug
# programs: setpriv mkfs.ext4
# memory: 2G
# time: real
# seconds: 600
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
mkdir -p /tmp/run
chmod 1777 /tmp
truncate -s 64M /tmp/a.img
chown 65534:65534 /tmp/a.img /tmp/run /dev/ublk-control
export XDG_RUNTIME_DIR=/tmp/run
# Under another name: the shell would take busybox's own setpriv.
cp /bin/setpriv /tmp/as_user
as_user="/tmp/as_user --reuid 65534 --regid 65534 --clear-groups"

serve() {
    : >/tmp/out
    $as_user hoistway serve --export a=/tmp/a.img,ublk --control /tmp/run/ctl >/tmp/out 2>/tmp/err &
    server=$!
    local tries=0
    until grep -q '^serving' /tmp/out; do
        kill -0 $server 2>/dev/null || { cat /tmp/err; return 1; }
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { cat /tmp/out /tmp/err; die 11 "the server is not ready"; }
        sleep 0.1
    done
    node=$(sed -n 's/^serving \(.*\): a$/\1/p' /tmp/out)
}

# Without a rule the nodes stay root's; the user cannot even remove the device, root can.
serve && die 12 "it serves without access to its node"
wait $server
[ $? = 1 ] || die 12 "the exit status"
grep -q "udev does not give /dev/ublkc0 to this user" /tmp/err || die 12 "the message"
hoistway device delete /dev/ublkb0 || die 12 "root cannot remove a user's device"
[ -e /dev/ublkc0 ] && die 12 "the device is left"
echo "= without udev's rule: refused, root removes the device"

# What udev does by the rule of docs/howto/share-a-local-disk.md.
while sleep 0.05; do chown 65534:65534 /dev/ublk[bc]* 2>/dev/null; done &
serve || die 13 "the server does not start"
[ -b "$node" ] || die 13 "no node: $node"
cat /tmp/err
grep -q "^Uid:.65534.65534" /proc/$server/status || die 13 "the server is not the user"
sleep 1
$as_user mkfs.ext4 -q "$node" || die 14 "mkfs"
(cd /tmp && $as_user fio --name=w --filename="$node" --offset=32m --size=16m --rw=randwrite --bs=4k --iodepth=8 --ioengine=libaio --direct=1 \
    --verify=crc32c --output=/tmp/fio) || { cat /tmp/fio; die 14 "fio"; }
$as_user hoistway top -b -n 1 --control /tmp/run/ctl | grep "default: a is $node" || die 14 "top does not show the node"
echo "= a user's device: made, 16 MiB verified"

kill $server
wait $server
code=$?
cat /tmp/err
[ $code = 0 ] || die 16 "the server ends with $code"
[ -z "$(ls /dev/ublk[bc]* 2>/dev/null)" ] || die 16 "nodes are left: $(ls /dev/ublk[bc]*)"
[ -z "$(ls /tmp/run/hoistway/ublk)" ] || die 16 "a note is left"
echo "= the end: nothing left"

# ---- kill -9 with the device open ----

serve || die 20 "the server does not start"
sleep 1
# fio ends with the I/O errors of a device whose server has died.
(cd /tmp && $as_user fio --name=w --filename="$node" --size=32m --rw=randwrite --bs=4k --iodepth=8 --ioengine=libaio --direct=1 \
    --time_based --runtime=600 --output=/tmp/fio.kill 2>/tmp/fio.err) &
exec 9<"$node"
sleep 3
kill -9 $server
wait $server
echo "= killed with $node open"
old=$node
serve || die 21 "the next server does not start"
cat /tmp/err
[ "$node" != "$old" ] || die 21 "the node of a device that is open is used again"
echo "= the next server serves $node while $old is open"

exec 8<"$node"
kill $server
tries=0
while kill -0 $server 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -gt 600 ] && die 22 "the server waits for a process that has its device open"
    sleep 0.1
done
wait $server
code=$?
[ $code = 0 ] || die 22 "the server ends with $code"
echo "= ended with $node open"

exec 8<&- 9<&-
tries=0
until [ -z "$(ls /dev/ublk[bc]* 2>/dev/null)" ]; do
    tries=$((tries + 1))
    [ $tries -gt 600 ] && die 23 "nodes are left: $(ls /dev/ublk[bc]*)"
    sleep 0.1
done
[ -z "$(ls /tmp/run/hoistway/ublk)" ] || die 23 "a note is left"
echo "= closed: nothing left"
