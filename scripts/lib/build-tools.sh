# shellcheck shell=bash
# What a kernel is built with: the one list of scripts/build-kernel.sh, which needs it, and scripts/setup.sh, which gets it.

# build_tools_missing: Debian's packages of what this machine lacks, one a line.
build_tools_missing() {
	local want
	for want in gcc:gcc make:make patch:patch flex:flex bison:bison bc:bc cpio:cpio pahole:dwarves; do
		command -v "${want%%:*}" >/dev/null || echo "${want#*:}"
	done
	for want in libelf.h:libelf-dev openssl/opensslv.h:libssl-dev; do
		gcc -E -x c - <<<"#include <${want%%:*}>" >/dev/null 2>&1 || echo "${want#*:}"
	done
}
