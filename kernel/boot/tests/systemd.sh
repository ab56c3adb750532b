#!/bin/sh
# systemd-run -p IOWeight=800 beside =100 divides a disk 8:1 to 10 %, with no word of ours; the same by runc and crun.
# programs: /lib/systemd/systemd systemd-run systemctl
# debian: runc crun
# memory: 2G
# part: long
# words: systemd.log_level=warning
load null_blk nr_devices=0 || die 10 "null_blk"
load bfq || die 10 "bfq"
insmod /hoistway.ko || die 10 "insmod"
nullb v0 size=1024 submit_queues=1 hw_queue_depth=4 irqmode=2 completion_nsec=2000000 || die 11 "nullb"
use v0 hw-paternoster || die 14 "hw-paternoster"
cat /sys/block/v0/queue/iosched/nr_requests_advised >/sys/block/v0/queue/nr_requests
number=$(cat /sys/block/v0/dev)
wrong=
ios() { for group; do cat /sys/fs/cgroup/$group/io.stat; done | awk -v disk="$number" '$1 == disk { for (i = 2; i <= NF; i++) if (sub("rios=", "", $i)) print $i }'; }
# window WHAT A B: the groups A and B share the disk 8:1.
window() {
    local off
    sleep 3
    set -- "$@" $(ios $2 $3)
    sleep 4
    set -- "$@" $(ios $2 $3)
    [ $# = 7 ] || die 17 "$1: no counts: $*"
    off=$((1000 * ($6 - $4) / (8 * ($7 - $5)) - 1000))
    echo "= $1: $(($6 - $4)) : $(($7 - $5)), off from 8:1 by $off/1000; io.weight $(head -n 1 /sys/fs/cgroup/$2/io.weight), io.bfq.weight $(head -n 1 /sys/fs/cgroup/$2/io.bfq.weight)"
    [ ${off#-} -le 100 ] || wrong="$wrong; $1"
}
# systemd is process 1 of its own namespace, and has the hierarchy of the guest.
mkdir -p /run /etc/systemd/system /lib64 /lib/systemd/system && mount -t tmpfs run /run || die 12 "folders"
for target in default basic sysinit shutdown multi-user; do
    printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' $target >/etc/systemd/system/$target.target
done
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
: >/etc/os-release
echo root:x:0:0:root:/:/bin/sh >/etc/passwd
echo root:x:0: >/etc/group
container=other LD_LIBRARY_PATH=/bin unshare -p -f -m --mount-proc /bin/systemd --system --log-target=console --log-level=warning &
manager=$!
export LD_LIBRARY_PATH=/bin
# systemd takes no words from a process that it does not see.
inside() { nsenter -t "$(awk -v parent=$manager '$4 == parent { print $1 }' /proc/[0-9]*/stat 2>/dev/null)" -p -m "$@"; }
for try in $(seq 100); do
    [ -S /run/systemd/private ] && break
    sleep 0.1
done
for weight in 800 100; do
    inside systemd-run --quiet --unit=w$weight -p DefaultDependencies=no -p IOWeight=$weight /bin/tester /dev/v0 16 stream 6000 || die 15 "systemd-run"
done
window "systemd-run -p IOWeight=800 beside 100" system.slice/w800.service system.slice/w100.service
inside systemctl set-property --runtime w800.service IOWeight=100 && inside systemctl set-property --runtime w100.service IOWeight=800 || die 16 "set-property"
window "changed by systemctl set-property" system.slice/w100.service system.slice/w800.service
inside systemctl stop w800.service w100.service || die 16 "stop"
# runc starts itself without the environment, so the libraries must be where they are looked for.
ln -s /bin/lib*.so* /lib/x86_64-linux-gnu/ 2>/dev/null
# The container has the guest's programs and disk; its weights are those of the OCI.
for runtime in runc crun; do
    for weight in 800 100; do
        mkdir -p /tmp/$weight/rootfs/bin /tmp/$weight/rootfs/dev /tmp/$weight/rootfs/proc && cp /bin/tester /tmp/$weight/rootfs/bin
        mknod /tmp/$weight/rootfs/v0 b ${number%:*} ${number#*:} 2>/dev/null
        cat >/tmp/$weight/config.json <<END
{"ociVersion": "1.0.2", "process": {"user": {"uid": 0, "gid": 0}, "args": ["/bin/tester", "/v0", "16", "stream", "6000"], "cwd": "/",
  "capabilities": {"bounding": [], "effective": [], "permitted": []}},
 "root": {"path": "rootfs"}, "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
 "linux": {"cgroupsPath": "/oci$weight", "namespaces": [{"type": "pid"}, {"type": "mount"}],
  "resources": {"blockIO": {"weight": $weight}, "devices": [{"allow": true, "access": "rwm"}]}}}
END
        $runtime run --no-pivot --bundle /tmp/$weight --detach box$weight </dev/null >/tmp/$weight/log 2>&1 || die 18 "$runtime: $(cat /tmp/$weight/log)"
    done
    window "$runtime, weights 800 and 100" oci800 oci100
    for weight in 800 100; do
        $runtime delete --force box$weight || die 18 "$runtime delete"
    done
done
kill -9 $manager
[ -z "$wrong" ] || die 21 "shares$wrong"
