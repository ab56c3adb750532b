#!/bin/sh
# csi-sanity, kills after every step, and refusals of the CSI driver, whose volumes are ublk devices.
# module: none
# drivers: ublk_drv ext4
# product: debug
# programs: hoistway-csi csi-sanity csi-system mkfs.ext4 blkid resize2fs dumpe2fs
# memory: 2G
# time: real
# seconds: 900
# part: long
export LD_LIBRARY_PATH=/bin
load ublk_drv || die 10 "ublk_drv"
load ext4 || die 10 "ext4"
mkdir -p /run/hoistway
HOISTWAY_CSI_ATTACH=ublk csi-system -test.v >/tmp/said 2>&1 || { cat /tmp/said; die 11 "see the test"; }
sed -nE 's/^ +[a-z_]+_test.go:[0-9]+: /= /p; s/^--- (PASS|SKIP): /= \1 /p' /tmp/said
