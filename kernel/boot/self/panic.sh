#!/bin/sh
# A panic of the guest is noticed.
# expects: 97
echo c >/proc/sysrq-trigger
