#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# fd with four threads, over the sources of LevelDB.
set -eu

fd --threads 4 --type f 'test' /root/src
