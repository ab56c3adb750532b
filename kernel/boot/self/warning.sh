#!/bin/sh
# A warning in the kernel's log fails a test that passed otherwise.
# expects: 98
echo "WARNING: planted" >/dev/kmsg
