#!/usr/bin/env bash
# Prints the path of a kernel image in the cache: scripts/kernel-image.sh 6.12
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/kernel.sh
. "$here/lib/kernel.sh"
# shellcheck source-path=SCRIPTDIR source=lib/foreign.sh
. "$here/lib/foreign.sh"

series=${1:?give a series of scripts/kernels.list, for example 6.12}
tampered=$(kernel_cache_tampered)
if [ -n "$tampered" ]; then
	echo "kernel-image: $tampered can be written by others, and kernels from there are booted: remove it, or set LINEMATE_CACHE" >&2
	exit 2
fi
case $series in
*-*) image=$(foreign_in_cache "$series") ;;
*) image=$(kernel_in_cache "$series" "$(kernel_pin "$series")") ;;
esac || {
	echo "kernel-image: no image of $series in the cache ($(dirname "$(kernel_cache)")): run \`make setup\`" >&2
	exit 2
}
echo "$image"
