#!/usr/bin/env bash
# Prints the path of a kernel image in the cache: scripts/kernel-image.sh 6.12
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/kernel.sh
. "$here/lib/kernel.sh"

series=${1:?give a series of scripts/kernels.list, for example 6.12}
image=$(kernel_in_cache "$series" "$(kernel_pin "$series")") || {
	echo "kernel-image: no image of $series in $(kernel_cache): run \`make setup\`" >&2
	exit 2
}
echo "$image"
