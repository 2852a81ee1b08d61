#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# ripgrep with four threads, over the sources of LevelDB.
set -eu

rg --threads 4 -c 'static.*const' /root/src
