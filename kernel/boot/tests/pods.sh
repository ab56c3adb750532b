#!/bin/sh
# The NRI plugin gives pods their weights in io.weight and io.hoist.weight of real control groups.
# programs: podweight hoistway-nri
# part: long
insmod /hoistway.ko || die 10 "insmod"
echo +io >/sys/fs/cgroup/cgroup.subtree_control || die 11 "no io controller"
mkdir /sys/fs/cgroup/node
HOISTWAY_CGROUPS=/sys/fs/cgroup/node podweight -test.v >/tmp/said 2>&1 || { cat /tmp/said; die 12 "podweight"; }
grep -q '^--- PASS: TestPodsGetTheirWeights' /tmp/said || { cat /tmp/said; die 13 "it was not run"; }
sed -n 's/^--- PASS: /= /p' /tmp/said
