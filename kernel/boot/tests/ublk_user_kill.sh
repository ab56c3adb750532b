#!/bin/sh
# After kill -9 of a user's server with its device open, the next server begins.
# module: none
# drivers: ublk_drv
# product: debug
# programs: setpriv
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
cp /bin/setpriv /tmp/as_user
as_user="/tmp/as_user --reuid 65534 --regid 65534 --clear-groups"
while sleep 0.05; do chown 65534:65534 /dev/ublk[bc]* 2>/dev/null; done &

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

serve || die 13 "the server does not start"
sleep 1
# fio ends with the I/O errors of a device whose server has died.
(cd /tmp && $as_user fio --name=w --filename="$node" --size=32m --rw=randwrite --bs=4k --iodepth=8 --ioengine=libaio --direct=1 \
    --time_based --runtime=600 --output=/tmp/fio 2>/tmp/fio.err) &
exec 9<"$node"
sleep 3
kill -9 $server
wait $server
echo "= killed with $node open"
old=$node
serve || die 14 "the next server does not start"
cat /tmp/err
[ "$node" != "$old" ] || die 14 "the node of a device that is open is used again"
echo "= the next server serves $node while $old is open"

exec 8<"$node"
kill $server
tries=0
while kill -0 $server 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -gt 600 ] && die 15 "the server waits for a process that has its device open"
    sleep 0.1
done
wait $server
code=$?
[ $code = 0 ] || die 15 "the server ends with $code"
echo "= ended with $node open"

exec 8<&- 9<&-
tries=0
until [ -z "$(ls /dev/ublk[bc]* 2>/dev/null)" ]; do
    tries=$((tries + 1))
    [ $tries -gt 600 ] && die 16 "nodes are left: $(ls /dev/ublk[bc]*)"
    sleep 0.1
done
[ -z "$(ls /tmp/run/hoistway/ublk)" ] || die 16 "a note is left"
echo "= closed: nothing left"
