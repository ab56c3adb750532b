#!/bin/sh
# The code of a test is the code of the run.
# expects: 7
exit 7
