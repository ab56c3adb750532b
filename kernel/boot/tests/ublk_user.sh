#!/bin/sh
# A user without privileges serves a ublk device: udev's part, verified data, removal.
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
