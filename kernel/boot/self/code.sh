#!/bin/sh
# The exit code of a test becomes the result of its guest's run.
# expects: 7
exit 7
