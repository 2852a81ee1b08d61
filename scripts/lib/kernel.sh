# shellcheck shell=bash
# Kernel images for scripts/setup.sh: Debian's packages, unpacked into the cache. Needs `die`, `say`, `here`, apt.sh
# and foreign.sh.

# Those of other architectures are apart (foreign.sh): a search for a kernel to boot must not find
# them.
kernel_folder=kernels

kernel_cache() {
	echo "${LINEMATE_CACHE:-${XDG_CACHE_HOME:-${HOME:?is not set, and neither is LINEMATE_CACHE}/.cache}/linemate}/$kernel_folder"
}

# Prints what in the cache other users could have changed, if anything: kernels from there are
# booted.
kernel_cache_tampered() {
	local cache place
	cache=$(kernel_cache)
	for place in "${cache%/*}" "$cache"; do
		[ -e "$place" ] || continue
		find "$place" -maxdepth "$([ "$place" = "$cache" ] && echo 3 || echo 0)" \
			\( ! -uid 0 ! -uid "$(id -u)" -o ! -type l -perm /022 \) -print -quit
	done | head -n 1
}

# The pins of kernels.list are kernels of this release. Those after it may lack a series, but it stays in the archive.
readonly PINNED_RELEASE=bookworm

# The pinned version of a series.
kernel_pin() {
	# shellcheck disable=SC2154 # set by the script that reads this file
	awk -v series="$1" '$1 == series { print $2 }' "$here/kernels.list"
}

# kernel_flavour SERIES: what ends the names of its packages: the smallest that has everything.
kernel_flavour() {
	case $1 in
	*-arm64) echo cloud-arm64 ;;
	*-ppc64el) echo powerpc64le ;;
	*) echo cloud-amd64 ;;
	esac
}

# kernel_in_cache SERIES PIN: prints the image's path; fails where there is none.
kernel_in_cache() {
	local image flavour names
	flavour=$(kernel_flavour "$1")
	names="${1%%-*}.*-$flavour"
	image="$(kernel_cache)/$2/boot/vmlinuz-$2"
	if [ -s "$image" ]; then
		echo "$image"
		return
	fi
	# Any other version of the series will do if the pinned one is no longer available: the newest.
	image=$(find "$(kernel_cache)" -path "*/$names/boot/vmlinuz-$names" -size +0 2>/dev/null | sort -V | tail -n 1)
	[ -n "$image" ] && echo "$image"
}

# kernel_on_offer SERIES PIN: the pinned version if the archive has it, else the newest of the
# series; may be empty.
kernel_on_offer() {
	if [ -n "$(apt_versions "linux-image-$2")" ]; then
		echo "$2"
		return
	fi
	local series=${1%%-*} names
	names="^linux-image-${series//./\\.}\\.[0-9.]+(-[0-9]+|\\+deb[0-9.]+)-$(kernel_flavour "$1")\$"
	{ apt-cache search --names-only "$names" 2>/dev/null || true; } |
		sed -E 's/^linux-image-([^ ]+) .*/\1/' | sort -rV |
		while read -r version; do
			# Lists keep names that only other packages mention.
			if [ -n "$(apt_versions "linux-image-$version")" ]; then
				echo "$version"
				break
			fi
		done || true
}

# The kernel in an unpacked tree, wherever this version of the package has put it; may be empty.
kernel_in_tree() {
	local image
	for image in "$1"/boot/vmlinu[xz]-* "$1"/usr/lib/modules/*/vmlinuz "$1"/lib/modules/*/vmlinuz; do
		if [ -s "$image" ]; then
			echo "$image"
			return
		fi
	done
}

# kernel_unpack PACKAGE-FILE TREE: image, configuration and licence only; the modules are many times their
# size and not needed.
kernel_unpack() {
	local members=()
	mapfile -t members < <(dpkg-deb --fsys-tarfile "$1" | tar -t |
		grep -E '^\./(boot/(vmlinu[xz]|config)-[^/]+|(usr/)?lib/modules/[^/]+/(vmlinuz|config)|usr/share/doc/linux-[^/]+/copyright)$')
	[ "${#members[@]}" -eq 0 ] || dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" -- "${members[@]}"
}

# From 6.19 on linux-image-VERSION is empty and depends on linux-binary-VERSION, which has the kernel.
kernel_follow_package() {
	dpkg-deb -f "$1" Depends Pre-Depends | tr ',' '\n' | sed -nE 's/^.*(linux-binary-[^ ]+).*/\1/p' | head -n 1
}

# kernel_download PACKAGE FOLDER: prints the file; ends the (sub)shell where it fails, having said why.
kernel_download() {
	# As root, apt gives downloads to the user _apt, who cannot write here, and warns about it:
	# download as root.
	(cd "$2" && apt_run "downloading $1" apt-get download -q -o APT::Sandbox::User=root "$1") || exit 2
	find "$2" -name "$1_*.deb" -print -quit
}

# ensure_kernel SERIES: an image of the series is in the cache afterwards.
ensure_kernel() {
	local series=$1 pin version tampered
	pin=$(kernel_pin "$series")
	[ -n "$pin" ] || die "scripts/kernels.list has no version for $series"
	tampered=$(kernel_cache_tampered)
	[ -z "$tampered" ] || die "$tampered can be written by others, and kernels from there are booted: remove it, or set LINEMATE_CACHE"
	if kernel_in_cache "$series" "$pin" >/dev/null; then
		return 0
	fi
	command -v apt-get >/dev/null || die "there is no kernel image of $series in $(kernel_cache) and no apt-get to fetch" \
		"one: put Debian's at $(kernel_cache)/$pin/boot/vmlinuz-$pin"
	version=$(kernel_on_offer "$series" "$pin")
	if [ -z "$version" ] || [ "$version" != "$pin" ]; then
		# Fresh lists may still have the pinned one; without root the present lists must do.
		[ "$(id -u)" != 0 ] || apt_refresh
		version=$(kernel_on_offer "$series" "$pin")
	fi
	if [ -z "$version" ] && [ "$(os_release ID)" = debian ] && [ "$(os_release VERSION_CODENAME)" != "$PINNED_RELEASE" ]; then
		# A kernel of an older release than this machine's.
		(own_apt_fetch "$series" amd64) || exit 2
		return
	fi
	[ -n "$version" ] || die "no apt source of this machine has a cloud kernel image of $series: run \`apt-get update\` as root," \
		"or add Debian 12's main and security archive to the sources"
	[ "$version" = "$pin" ] ||
		say "the pinned kernel $pin is no longer on offer: taking $version, so figures may differ from the documented ones"
	kernel_fetch "$version"
}

kernel_fetch() {
	local version=$1 cache tree package file image next megabytes
	cache=$(kernel_cache)
	(umask 077 && mkdir -p "$cache") 2>/dev/null || die "cannot create $cache: set LINEMATE_CACHE to a folder that can be written"
	tree=$(mktemp -d "$cache/.fetch.XXXXXX") || die "cannot write to $cache: set LINEMATE_CACHE to a folder that can be written"
	# shellcheck disable=SC2064
	trap "rm -rf '$tree'" EXIT
	mkdir "$tree/root"
	case $version in
	*-powerpc64le) megabytes=80 ;;
	*) megabytes=35 ;;
	esac
	say "downloading the kernel image $version (about $megabytes MB)"
	package=linux-image-$version
	file=$(kernel_download "$package" "$tree") || exit 2
	kernel_unpack "$file" "$tree/root"
	next=$(kernel_follow_package "$file")
	if [ -z "$(kernel_in_tree "$tree/root")" ] && [ -n "$next" ]; then
		file=$(kernel_download "$next" "$tree") || exit 2
		kernel_unpack "$file" "$tree/root"
	fi
	image=$(kernel_in_tree "$tree/root")
	[ -n "$image" ] || die "the package $package holds no kernel image and names no package that does: please report its version"
	mkdir -p "$tree/root/boot"
	[ "$image" = "$tree/root/boot/vmlinuz-$version" ] || mv "$image" "$tree/root/boot/vmlinuz-$version"
	chmod -R u+rwX,go+rX,go-w "$tree/root"
	rm -rf "${cache:?}/$version"
	mv "$tree/root" "$cache/$version"
	rm -rf "$tree"
	trap - EXIT
	say "unpacked to $cache/$version"
}
