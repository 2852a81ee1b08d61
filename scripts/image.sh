#!/usr/bin/env bash
# Makes the image `linemate`: a minimal Debian 13 with QEMU, linemate and one kernel, from this
# machine's own apt sources. No registry is asked, and no root is needed where user namespaces are.
#
#   scripts/image.sh [NAME]     (linemate)
#
# From the environment: BUILT (target/release): what `make pages` has built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source-path=SCRIPTDIR source=lib/apt.sh
. scripts/lib/apt.sh
# shellcheck source-path=SCRIPTDIR source=lib/fresh.sh
. scripts/lib/fresh.sh

readonly name=${1:-linemate}
readonly suite=trixie
# What debian/control depends on.
readonly packages=busybox-static,qemu-system-x86
# Anyone reads the files of an image.
umask 022
work=$(mktemp -d "${TMPDIR:-/var/tmp}/linemate-image.XXXXXX")
trap 'rm -rf "$work"' EXIT

die() {
	echo "image: error: $*" >&2
	exit 2
}

# What is installed, in the folders that it has in the image: of the documentation, licences alone.
fill() {
	local kernel boot
	PREFIX=/usr DESTDIR=$work/add scripts/install.sh install >/dev/null
	rm -r "$work"/add/usr/share/{doc,man,bash-completion,fish,zsh} "$work/add/usr/lib/linemate/installed"
	install -D -m 644 debian/copyright "$work/add/usr/share/doc/linemate/copyright"
	scripts/sbom.py >"$work/add/usr/share/doc/linemate/linemate.cdx.json"
	kernel=$(scripts/kernel-image.sh 6.12)
	boot=$(dirname "$kernel")
	mkdir -p "$work/add/var/cache/linemate/kernels/$(basename "$(dirname "$boot")")" "$work/add/work"
	cp -r "$boot" "$work/add/var/cache/linemate/kernels/$(basename "$(dirname "$boot")")/"
	# An older version's cache does not have it.
	[ ! -d "$boot/../usr/share/doc" ] || cp -r "$boot/../usr/share/doc" "$work/add/usr/share/"
	tar -C "$work/add" --owner=0 --group=0 -cf "$work/add.tar" usr var work
}

# shellcheck disable=SC2016 # mmdebstrap's $1
# Without its package lists and this machine's apt sources; documentation stays out.
make_root() {
	fresh_sources "$suite" >"$work/sources" || die "no apt source of this machine leads to Debian's archive"
	mmdebstrap --quiet --variant=apt --include="$packages" \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--customize-hook="tar-in $work/add.tar /" \
		--customize-hook='rm -f "$1"/etc/apt/sources.list "$1"/etc/resolv.conf "$1"/etc/hostname' \
		"$suite" "$work/root.tar" - <"$work/sources" || die "mmdebstrap fails"
}

command -v podman >/dev/null || die "podman is not there: install podman"
command -v mmdebstrap >/dev/null || die "mmdebstrap is not there: install mmdebstrap"
fill
make_root
cp ci/Containerfile "$work/Containerfile"
podman build --quiet --tag "$name" "$work" || die "podman build fails"
