#!/bin/sh
# Why a ublk device cannot be had: one message with its remedy and the documented exit status each.
# module: none
# drivers: ublk_drv
# product: debug
# programs: setpriv
# memory: 2G
# time: real
# seconds: 300
# part: long
export LD_LIBRARY_PATH=/bin
mkdir -p /run
chmod 1777 /tmp
truncate -s 16M /tmp/a.img /tmp/b.img
chmod 666 /tmp/a.img

# refused STATUS MESSAGE REMEDY COMMAND...: the command ends with the status, and its one error
# contains MESSAGE and REMEDY.
refused() {
    local status=$1 message=$2 remedy=$3 code
    shift 3
    timeout 120 "$@" >/tmp/said 2>&1
    code=$?
    cat /tmp/said
    [ $code = "$status" ] || die 11 "$message: exit status $code"
    grep -F "hoistway: error: " /tmp/said | grep -qF "$message" || die 12 "the message is not: $message"
    grep -F "  help: " /tmp/said | grep -qF "$remedy" || die 12 "the remedy is not: $remedy"
    [ "$(grep -c 'hoistway: error: ' /tmp/said)" = 1 ] || die 12 "more than one message"
    [ -z "$(ls /dev/ublkb* 2>/dev/null)" ] || [ -n "$kept" ] || die 13 "a device is left"
}
serve() {
    hoistway serve --export "$1" >/tmp/out 2>/tmp/err &
    server=$!
    local tries=0
    until grep -q '^serving' /tmp/out; do
        kill -0 $server 2>/dev/null || { cat /tmp/err; die 14 "the server does not start"; }
        tries=$((tries + 1))
        [ $tries -gt 600 ] && die 14 "the server is not ready"
        sleep 0.1
    done
}
# Under another name: the shell would take busybox's own setpriv.
cp /bin/setpriv /tmp/as_user
as_user="/tmp/as_user --reuid 65534 --regid 65534 --clear-groups"

refused 1 "the kernel has no ublk driver" "modprobe ublk_drv" hoistway serve --export a=/tmp/a.img,ublk
echo "= no driver: refused"
load ublk_drv || die 10 "ublk_drv"
refused 1 "no rights on /dev/ublk-control" "run the server as root" $as_user hoistway serve --export a=/tmp/a.img,ublk
echo "= no rights: refused"
kept=1
serve a=/tmp/a.img,ublk=5
refused 2 "/dev/ublkb5 is taken" "choose another number" hoistway serve --export b=/tmp/b.img,ublk=5
echo "= a number that is taken: refused"
refused 3 "/dev/ublkb5 is served by process $server" "stop that server" hoistway serve --export a=/tmp/b.img,ublk
echo "= a device that another server serves: refused"
kill $server
wait $server || die 15 "the first server suffered"
kept=
set --
for number in $(seq 0 64); do
    set -- "$@" --export "e$number=memory:1MiB,ublk"
done
refused 2 "65 exports of device default have ublk; a device has at most 64 of them" "by NBD or vhost-user-blk" hoistway serve "$@"
echo "= more devices than a server has connections for: refused, and the first 64 are gone"
