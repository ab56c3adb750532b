#!/bin/sh
# Two volumes of the CSI driver keep weights of 800 and 100 on one disk, and 1:1 within two seconds after ControllerModifyVolume.
# module: none
# drivers: ublk_drv null_blk ext4
# product: debug
# programs: hoistway-csi csi-call mkfs.ext4
# memory: 2G
# time: real
# seconds: 600
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
load null_blk nr_devices=0 || die 10 "null_blk"
load ext4 || die 10 "ext4"
mkdir -p /run/hoistway /csi /disk /pods
# 400 requests a second: 8 at once, of 20 ms each.
nullb slow size=512 memory_backed=1 submit_queues=1 hw_queue_depth=8 irqmode=2 completion_nsec=20000000 || die 11 "nullb"
mkfs.ext4 -q /dev/slow && mount -t ext4 /dev/slow /disk || die 11 "a file system on the slow disk"
printf '[[device]]\nname = "slow"\nrotational = "no"\nqueue_depth = 8\n' >/csi/head.toml
driver() { hoistway-csi -node guest -endpoint /csi/csi.sock -root /disk/csi -serve-head /csi/head.toml "$@"; }
driver -configure || die 12 "the configuration"
hoistway serve /disk/csi/serve.toml >/tmp/serve 2>&1 &
server=$!
driver >/tmp/driver 2>&1 &
# call METHOD JSON
call() { csi-call /csi/csi.sock "$@" >/tmp/said 2>&1 || { cat /tmp/said /tmp/driver /tmp/serve; die 13 "$1"; }; }
ability='"accessMode": {"mode": "SINGLE_NODE_WRITER"}, "block": {}'
volume() {
    call Controller/CreateVolume "{\"name\": \"$1\", \"capacityRange\": {\"requiredBytes\": 67108864}, \"volumeCapabilities\": [{$ability}], \"parameters\": {\"weight\": \"$2\"}}"
    call Node/NodeStageVolume "{\"volumeId\": \"$1.guest\", \"stagingTargetPath\": \"/csi/$1\", \"volumeCapability\": {$ability}}"
    call Node/NodePublishVolume "{\"volumeId\": \"$1.guest\", \"stagingTargetPath\": \"/csi/$1\", \"targetPath\": \"/pods/$1\", \"volumeCapability\": {$ability}}"
    # What was never written is not read from a disk.
    dd if=/dev/urandom of=/pods/$1 bs=1M count=64 oflag=direct 2>/dev/null || die 14 "dd"
}
# A server that is not there yet is asked again, as kubelet does.
tries=0
until hoistway ctl --control /run/hoistway/csi-control.sock status >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -gt 300 ] && { cat /tmp/serve; die 12 "the server is not ready"; }
    sleep 0.1
done
volume heavy 800
volume light 100
# Reads so far of the device that a pod has.
reads() { awk '{ print $1 }' "/sys/dev/block/$((0x$(stat -c %t /pods/$1))):$((0x$(stat -c %T /pods/$1)))/stat"; }
fio --direct=1 --ioengine=libaio --iodepth=16 --rw=randread --bs=4k --time_based --runtime=300 --norandommap \
    --output=/tmp/fio --name=light --filename=/pods/light --name=heavy --filename=/pods/heavy &
pods=$!
# ratio SECONDS: heavy reads per light read, in thousandths.
ratio() {
    local heavy light
    heavy=$(reads heavy) light=$(reads light)
    sleep "$1"
    heavy=$(($(reads heavy) - heavy)) light=$(($(reads light) - light))
    echo "= $2: heavy $heavy, light $light reads in $1 s"
    [ $light -gt 0 ] || die 15 "light reads nothing"
    thousandths=$((heavy * 1000 / light))
}
sleep 10
ratio 30 "800 and 100"
[ $thousandths -gt 7200 ] && [ $thousandths -lt 8800 ] || { cat /tmp/serve; die 16 "$thousandths thousandths, and 8000 are due"; }
call Controller/ControllerModifyVolume '{"volumeId": "heavy.guest", "mutableParameters": {"weight": "100"}}'
sleep 2
ratio 10 "changed to 100 and 100, from 2 s later on"
[ $thousandths -gt 900 ] && [ $thousandths -lt 1100 ] || { cat /tmp/serve; die 17 "$thousandths thousandths, and 1000 are due"; }
kill $pods
wait $pods
for name in heavy light; do
    call Node/NodeUnpublishVolume "{\"volumeId\": \"$name.guest\", \"targetPath\": \"/pods/$name\"}"
    call Node/NodeUnstageVolume "{\"volumeId\": \"$name.guest\", \"stagingTargetPath\": \"/csi/$name\"}"
    call Controller/DeleteVolume "{\"volumeId\": \"$name.guest\"}"
done
[ -z "$(ls /disk/csi/volumes)" ] || die 18 "volumes are left"
kill $server
wait $server || { cat /tmp/serve; die 18 "the server suffered"; }
