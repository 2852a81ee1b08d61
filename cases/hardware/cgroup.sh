#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes three levels of groups with the memory controller, /a/b/c; a set-up script for
# `linemate record --setup`.
set -eu

group=/sys/fs/cgroup
for level in a b c; do
	echo +memory >"$group/cgroup.subtree_control"
	group=$group/$level
	/bin/busybox mkdir "$group"
done
