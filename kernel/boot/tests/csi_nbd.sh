#!/bin/sh
# csi-sanity, and kills while a volume is attached, of the CSI driver whose volumes are devices of the kernel's NBD client.
# module: none
# drivers: nbd ext4
# product: debug
# programs: hoistway-csi csi-sanity csi-system mkfs.ext4 blkid resize2fs dumpe2fs
# memory: 2G
# time: real
# seconds: 900
# part: long
export LD_LIBRARY_PATH=/bin
load nbd nbds_max=2 || die 10 "nbd"
load ext4 || die 10 "ext4"
mkdir -p /run/hoistway
HOISTWAY_CSI_ATTACH=nbd csi-system -test.v -test.run 'Sanity|Away|ReadOnly|TestDeathAfterEveryStep/^(stage|publish|unstage)$' >/tmp/said 2>&1 ||
    { cat /tmp/said; die 11 "see the test"; }
sed -nE 's/^ +[a-z_]+_test.go:[0-9]+: /= /p; s/^--- (PASS|SKIP): /= \1 /p' /tmp/said
