#!/usr/bin/env bash
# Prints the path of a kernel image in the cache.
#
#   scripts/kernel-image.sh 6.12            a series of scripts/kernels.list, which `make setup` has put there
#   scripts/kernel-image.sh debian:7.0      any kernel of Debian's (lib/named.sh); what is not there is fetched
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/apt.sh
. "$here/lib/apt.sh"
# shellcheck source-path=SCRIPTDIR source=lib/kernel.sh
. "$here/lib/kernel.sh"
# shellcheck source-path=SCRIPTDIR source=lib/foreign.sh
. "$here/lib/foreign.sh"
# shellcheck source-path=SCRIPTDIR source=lib/named.sh
. "$here/lib/named.sh"

die() {
	printf 'kernel-image: %s\n' "$*" >&2
	exit 2
}

say() {
	printf 'kernel-image: %s\n' "$*" >&2
}

series=${1:?give a series of scripts/kernels.list, for example 6.12, or debian:7.0}
tampered=$(kernel_cache_tampered)
[ -z "$tampered" ] || die "$tampered can be written by others, and kernels from there are booted: remove it, or set LINEMATE_CACHE"
case $series in
debian:*)
	named_kernel "${series#debian:}"
	exit
	;;
*-*) image=$(foreign_in_cache "$series") ;;
*) image=$(kernel_in_cache "$series" "$(kernel_pin "$series")") ;;
esac || die "no image of $series in the cache ($(dirname "$(kernel_cache)")): run \`make setup\`"
echo "$image"
