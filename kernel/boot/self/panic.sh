#!/bin/sh
# A panic of the guest is detected.
# expects: 97
echo c >/proc/sysrq-trigger
