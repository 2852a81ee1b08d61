#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# jq groups, sums and sorts an array of 2,000 objects.
set -eu

jq -n '[range(2000) | {id: ., name: "n\(. % 97)", tags: [range(. % 5)], size: (. * 7 % 1000)}]' >/root/in.json
jq 'group_by(.name) | map({name: .[0].name, n: length, size: (map(.size) | add)}) | sort_by(-.size)' /root/in.json >/dev/null
