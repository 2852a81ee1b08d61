# shellcheck shell=bash
# Kernel sources for scripts/setup.sh: Debian's linux-source packages and generated headers, unpacked into the cache. Needs kernel.sh
# and apt.sh.

# source_in_cache SERIES: prints the tree; fails where there is none.
source_in_cache() {
	local tree
	tree=$(dirname "$(kernel_cache)")/sources/linux-source-$1
	[ -f "$tree/Makefile" ] && echo "$tree"
}

# ensure_source SERIES: the sources of the series are in the cache afterwards.
ensure_source() {
	local package=linux-source-$1 cache tree file
	source_in_cache "$1" >/dev/null && return
	cache=$(dirname "$(kernel_cache)")/sources
	command -v apt-get >/dev/null || die "there are no kernel sources in $cache/$package and no apt-get to fetch" \
		"them: unpack Debian's package $package there"
	if [ -z "$(apt_versions "$package")" ]; then
		[ "$(id -u)" != 0 ] || apt_refresh
		[ -n "$(apt_versions "$package")" ] ||
			die "no apt source of this machine has the package $package: add Debian 12's main and security archive"
	fi
	mkdir -p "$cache" 2>/dev/null || die "cannot create $cache: set LINEMATE_CACHE to a folder that can be written"
	tree=$(mktemp -d "$cache/.fetch.XXXXXX") || die "cannot write to $cache: set LINEMATE_CACHE to a folder that can be written"
	# shellcheck disable=SC2064
	trap "rm -rf '$tree'" EXIT
	say "downloading the kernel sources $package (about 150 MB, 1.6 GB unpacked)"
	file=$(kernel_download "$package" "$tree") || exit 2
	# The package holds an archive, which is streamed: it is not needed on disk.
	dpkg-deb --fsys-tarfile "$file" | tar -xO "./usr/src/$package.tar.xz" | tar -xJ -C "$tree" ||
		die "the package $package cannot be unpacked: is there room in $cache?"
	[ -f "$tree/$package/Makefile" ] || die "the package $package holds no kernel sources: please report its version"
	rm -rf "${cache:?}/$package"
	mv "$tree/$package" "$cache/$package"
	rm -rf "$tree"
	trap - EXIT
	say "unpacked to $cache/$package"
}

# headers_in_cache RELEASE: fails where its generated headers are not there.
headers_in_cache() {
	[ -f "$(dirname "$(kernel_cache)")/headers/linux-headers-$1/include/generated/autoconf.h" ]
}

# ensure_headers SERIES [FLAVOUR]: the generated headers of the kernel of that series that is in the cache, or of the same version in
# another flavour, are in the cache afterwards: configs for `linemate patch --config`.
ensure_headers() {
	local release package cache tree file
	release=$(kernel_in_cache "$1" "$(kernel_pin "$1")") || die "there is no kernel image of $1 in $(kernel_cache)"
	release=${release##*/vmlinuz-}
	[ -z "${2:-}" ] || release=${release%"$(kernel_flavour "$1")"}$2
	headers_in_cache "$release" && return
	package=linux-headers-$release
	cache=$(dirname "$(kernel_cache)")/headers
	command -v apt-get >/dev/null || die "there are no headers in $cache/$package and no apt-get to fetch" \
		"them: unpack Debian's package $package there"
	mkdir -p "$cache" 2>/dev/null || die "cannot create $cache: set LINEMATE_CACHE to a folder that can be written"
	tree=$(mktemp -d "$cache/.fetch.XXXXXX") || die "cannot write to $cache: set LINEMATE_CACHE to a folder that can be written"
	# shellcheck disable=SC2064
	trap "rm -rf '$tree'" EXIT
	say "downloading the kernel headers $package (about 3 MB)"
	file=$(kernel_download "$package" "$tree") || exit 2
	dpkg-deb --fsys-tarfile "$file" | tar -x -C "$tree" "./usr/src/$package" ||
		die "the package $package cannot be unpacked: is there room in $cache?"
	rm -rf "${cache:?}/$package"
	mv "$tree/usr/src/$package" "$cache/$package"
	rm -rf "$tree"
	trap - EXIT
	say "unpacked to $cache/$package"
}
