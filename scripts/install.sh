#!/usr/bin/env bash
# Installs what is built below $DESTDIR$PREFIX, or removes it again.
#
#   scripts/install.sh install|uninstall
#
#   bin/linemate, lib/linemate (the recorder, a list of what was installed), share/linemate (machines, rules, what finds kernels),
#   share/doc/linemate (README.md, docs, python/README.md), share/man/man1, completions for bash, fish and zsh
#
# From the environment: PREFIX (/usr/local), DESTDIR (none), BUILT (target/release): where linemate and examples/pages are.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly prefix=${PREFIX:-/usr/local}
readonly root=${DESTDIR-}$prefix
readonly list=lib/linemate/installed

die() {
	echo "install: error: $*" >&2
	exit 2
}

# put MODE FOLDER FILE…: into a folder below the prefix, and onto the list.
put() {
	local mode=$1 folder=$2 file
	shift 2
	for file in "$@"; do
		install -D -m "$mode" "$file" "$root/$folder/${file##*/}" || exit 2
		echo "$folder/${file##*/}" >>"$installed"
	done
}

install_all() {
	local built=${BUILT:-target/release} file pages
	for file in linemate liblinemate_recorder.so examples/pages; do
		[ -f "$built/$file" ] || die "$built/$file is not there: run \`make pages\` first"
	done
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	installed=$work/installed
	pages=$work/pages
	"$built/examples/pages" "$pages"
	mv "$pages/linemate.bash" "$pages/linemate"
	put 755 bin "$built/linemate"
	put 755 lib/linemate "$built/liblinemate_recorder.so"
	put 644 share/linemate/machines machines/*.toml
	put 644 share/linemate/rules rules/*.rules
	put 755 share/linemate/scripts scripts/kernel-image.sh
	put 644 share/linemate/scripts scripts/kernels.list
	put 644 share/linemate/scripts/lib scripts/lib/{apt,kernel,foreign,named}.sh
	put 644 share/doc/linemate README.md ARCHITECTURE.md LICENSE-*
	put 644 share/doc/linemate/python python/README.md python/hot-fields.ipynb
	while read -r file; do
		put 644 "share/doc/linemate/${file%/*}" "$file"
	done < <(find docs evidence -type f | LC_ALL=C sort)
	put 644 share/man/man1 "$pages"/*.1
	put 644 share/bash-completion/completions "$pages/linemate"
	put 644 share/fish/vendor_completions.d "$pages/linemate.fish"
	put 644 share/zsh/site-functions "$pages/_linemate"
	put 644 lib/linemate "$installed"
	echo "installed into $root"
}

# Files on the list, then the folders that are ours alone. What an older version installed and this
# one would not is on its list.
uninstall_all() {
	local file
	[ -f "$root/$list" ] || die "nothing is installed in $root: $root/$list is not there"
	while read -r file; do
		case /$file/ in
		*/../*) die "$root/$list names $file, which is outside of it" ;;
		esac
		rm -f "$root/$file"
	done < <(cat "$root/$list")
	# The list does not name itself: it was complete when it was copied.
	rm -f "$root/$list"
	for file in lib/linemate share/linemate/machines share/linemate/rules \
		share/linemate/scripts/lib share/linemate/scripts share/linemate; do
		rmdir "$root/$file" 2>/dev/null || true
	done
	[ ! -d "$root/share/doc/linemate" ] || find "$root/share/doc/linemate" -depth -type d -empty -delete
	echo "removed from $root"
}

case ${1-} in
install) install_all ;;
uninstall) uninstall_all ;;
*) die "say install or uninstall" ;;
esac
