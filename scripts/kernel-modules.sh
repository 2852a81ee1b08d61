#!/usr/bin/env bash
# Puts modules of a Debian kernel, with all that they need, into a folder for
# `linemate record --file FOLDER:/modules`; numbered in the order in which insmod takes them. The
# package is fetched once and cached with the kernel.
#
#   scripts/kernel-modules.sh debian:7.3 FOLDER MODULE…     a kernel's name (scripts/kernel-image.sh) or its image in the cache
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
	printf 'kernel-modules: %s\n' "$*" >&2
	exit 2
}

say() {
	printf 'kernel-modules: %s\n' "$*" >&2
}

# The modules of the package of $release are in $modules afterwards.
fetch() (
	local package lists tree file
	lists=$(dirname "$(kernel_cache)")/apt-lists/amd64
	(umask 077 && mkdir -p "$lists") 2>/dev/null || die "cannot create $lists: set LINEMATE_CACHE to a folder that can be written"
	exec 9>"$lists/.lock"
	flock 9
	named_apt amd64 "$lists"
	package=linux-modules-$release
	# Until 6.18 the kernel's package has them.
	[ -n "$(apt_versions "$package")" ] || package=linux-image-$release
	if [ -z "$(apt_versions "$package")" ]; then
		apt-get update -q </dev/null >"$lists/log" 2>&1 || true
		[ -z "$(apt_versions "linux-modules-$release")" ] || package=linux-modules-$release
	fi
	tree=$(mktemp -d "$modules.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$tree'" EXIT
	say "downloading $package"
	file=$(kernel_download "$package" "$tree") || exit 2
	dpkg-deb --fsys-tarfile "$file" | tar -x -C "$tree" --wildcards '*.ko*'
	mkdir "$tree/flat"
	find "$tree" -name '*.ko*' -type f -exec mv -t "$tree/flat" {} +
	chmod -R u+rwX,go+rX,go-w "$tree/flat"
	mv -T "$tree/flat" "$modules"
)

# packed NAME: prints where the module's packed file is; "-" and "_" are the same in names.
packed() {
	local file
	for file in "$modules/$1".ko* "$modules/${1//_/-}".ko* "$modules/${1//-/_}".ko*; do
		if [ -s "$file" ]; then
			echo "$file"
			return
		fi
	done
	return 1
}

unpack() {
	case $1 in
	*.xz) xz -dc "$1" ;;
	*.zst) zstd -qdc "$1" ;;
	*.gz) gzip -dc "$1" ;;
	*) cat "$1" ;;
	esac
}

declare -A done_with
count=0

# bring NAME: what it needs first.
bring() {
	local name=${1//-/_} file depends
	[ -z "${done_with[$name]-}" ] || return 0
	done_with[$name]=1
	file=$(packed "$name") || die "the kernel $release has no module $1 (it may be built in)"
	unpack "$file" >"$folder/.new"
	depends=$(tr '\0' '\n' <"$folder/.new" | grep -a '^depends=' | sed -n '1s/^depends=//p' | tr ',' ' ')
	for depends in $depends; do
		bring "$depends"
	done
	# Its dependencies have overwritten this module's file.
	unpack "$file" >"$folder/.new"
	mv "$folder/.new" "$folder/$(printf '%02d' "$count")-$name.ko"
	count=$((count + 1))
}

[ $# -ge 3 ] || die "give a kernel, a folder and modules: scripts/kernel-modules.sh debian:7.3 target/modules nf_tables"
image=$1 folder=$2
shift 2
case $image in
debian:*) image=$(named_kernel "${image#debian:}") || exit 2 ;;
esac
release=$(basename "$image")
release=${release#vmlinuz-}
modules=$(dirname "$(dirname "$image")")/modules
[ -d "$modules" ] || fetch || exit 2
mkdir -p "$folder"
rm -f "$folder"/*.ko
for name; do
	bring "$name"
done
