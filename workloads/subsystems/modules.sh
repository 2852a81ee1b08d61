#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Loads the modules of /modules in their order, which scripts/kernel-modules.sh gives them; other set-up scripts begin with it. With brd there is a
# RAM disk of 192 MiB then.
#
# Where it is weak: names of modules' functions and types are not known to linemate (docs/model/limits.md).
set -eu

for module in /modules/*.ko; do
	case $module in
	*-brd.ko) /bin/busybox insmod "$module" rd_nr=1 rd_size=196608 max_part=0 ;;
	*) /bin/busybox insmod "$module" ;;
	esac || {
		echo "modules.sh: cannot load $module" >&2
		exit 2
	}
done
