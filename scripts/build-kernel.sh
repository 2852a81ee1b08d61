#!/usr/bin/env bash
# Builds a kernel for the cases: `make tinyconfig`, a fragment of options over it, patches over the sources. The last line on
# stdout is the path of the bzImage; progress and complaints go to stderr.
#
#   scripts/build-kernel.sh [--from OUT_DIR] SOURCE_DIR FRAGMENT OUT_DIR [PATCH…]
#
# SOURCE_DIR is only read. OUT_DIR/tree is a folder of links to it, where what a patch touches is a file of its own;
# OUT_DIR/tree/build is the build, OUT_DIR/build.log its output. A second call with the same OUT_DIR compiles what has
# changed since, with whatever patches it is given. `--from` starts a new OUT_DIR as a copy of another one of the same
# sources: a variant of a kernel that is built already takes a third of the time.
#
# Exit code: 0 built; 2 not, with one line that says why (and the log's last lines where the build failed).
set -euo pipefail

die() {
	echo "build-kernel: $*" >&2
	exit 2
}

say() {
	echo "build-kernel: $*" >&2
}

usage="usage: build-kernel.sh [--from OUT_DIR] SOURCE_DIR FRAGMENT OUT_DIR [PATCH…]"
from=
if [ "${1-}" = --from ]; then
	from=${2:?$usage}
	shift 2
fi
[ $# -ge 3 ] || die "$usage"
[ -f "$1/Kconfig" ] || die "$1 is not a kernel source tree: it has no Kconfig"
source=$(realpath "$1")
[ -f "$2" ] || die "there is no fragment $2"
fragment=$(realpath "$2")
out=$(realpath -m "$3")
shift 3
patches=()
for patch in "$@"; do
	[ -f "$patch" ] || die "there is no patch $patch"
	patches+=("$(realpath "$patch")")
done
case $out/ in
"$source"/*) die "$out is within the sources, which are not written to" ;;
esac
if [ -e "$source/.config" ] || [ -d "$source/include/config" ]; then
	die "$source has been built in, and Linux refuses to build elsewhere then: run \`make mrproper\` there"
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/build-tools.sh
. "$here/lib/build-tools.sh"
absent=$(build_tools_missing | tr '\n' ' ')
[ -z "$absent" ] || die "packages are missing; as root: apt-get install ${absent% }"

tree=$out/tree
# Directly inside the tree: Linux then calls its sources `..`, and a copy of everything needs
# nothing compiled again.
build=$tree/build
log=$out/build.log

# The links, made once. Of the sources' own version control nothing is needed; `build` is ours.
make_tree() {
	if [ -n "$from" ] && [ -f "$from/source" ]; then
		[ "$(cat "$from/source")" = "$source" ] || die "$from was built from $(cat "$from/source"), not from $source"
		say "copying $from"
		mkdir -p "$(dirname "$out")"
		cp -a --reflink=auto "$from" "$out.partial"
		rm -f "$out.partial/build.log"
		mv "$out.partial" "$out"
		return
	fi
	[ ! -e "$source/build" ] || die "$source has a folder \`build\`, the name that this script uses in its own tree"
	mkdir -p "$out"
	cp -rs "$source" "$out/tree.partial"
	rm -rf "$out/tree.partial/.git"
	mv "$out/tree.partial" "$tree"
	echo "$source" >"$out/source"
}

# Files that the patches change, create or delete, relative to the tree.
touched() {
	[ "${#patches[@]}" -eq 0 ] ||
		sed -nE 's/\r$//; s@^(---|\+\+\+) [ab]/([^\t]+).*@\2@p' "${patches[@]}" | sort -u
}

# Applies all patches to a folder that holds nothing but what they touch.
patch_stage() {
	local stage=$1 file patch
	touched | while read -r file; do
		case /$file/ in
		*/../*) die "a patch names $file, which is outside of the sources" ;;
		esac
		[ ! -f "$source/$file" ] || install -D -m 644 "$source/$file" "$stage/$file"
	done
	for patch in ${patches[@]+"${patches[@]}"}; do
		patch -d "$stage" -p1 --batch --forward --fuzz=0 --no-backup-if-mismatch -r - <"$patch" >"$out/patch.log" 2>&1 ||
			die "$patch does not apply to $source ($(grep -m 1 -E 'FAILED|malformed|No file|previously|garbage' "$out/patch.log" ||
				tail -n 1 "$out/patch.log"))"
	done
}

# Brings the tree to the stage's state. An unchanged file keeps its time, so that make leaves it
# alone; a file that is restored gets a new time: a link would look older than what was compiled
# from the patched file.
bring() {
	local stage=$1 file
	touched >"$out/touched.new"
	touch "$out/touched"
	# Files that were ever touched: all of them may need restoring.
	sort -u "$out/touched.new" "$out/touched" >"$out/touched.all"
	while read -r file; do
		local wanted=$source/$file
		! grep -qxF -- "$file" "$out/touched.new" || wanted=$stage/$file
		if [ ! -e "$wanted" ]; then
			rm -f "$tree/$file"
		elif ! cmp -s "$wanted" "$tree/$file"; then
			rm -f "$tree/$file"
			mkdir -p "$(dirname "$tree/$file")"
			cp --no-preserve=timestamps "$wanted" "$tree/$file"
		fi
	done <"$out/touched.all"
	mv "$out/touched.all" "$out/touched"
	rm -f "$out/touched.new"
}

run_make() {
	# The name of this computer and its clock are not part of a kernel that must be the same next time.
	make -C "$tree" O=build KBUILD_BUILD_USER=linemate KBUILD_BUILD_HOST=linemate \
		KBUILD_BUILD_TIMESTAMP=1970-01-01 KBUILD_BUILD_VERSION=1 "$@" >>"$log" 2>&1
}

# make_config: tinyconfig, the fragment, and what both imply; left alone if nothing has changed.
make_config() {
	if [ -f "$build/.config" ] && cmp -s "$fragment" "$out/fragment"; then
		return
	fi
	mkdir -p "$build"
	run_make tinyconfig || failed "make tinyconfig"
	(cd "$tree" && scripts/kconfig/merge_config.sh -m -O "$build" "$build/.config" "$fragment" >>"$log" 2>&1) ||
		failed "laying $fragment over it"
	run_make olddefconfig || failed "make olddefconfig"
	cp "$fragment" "$out/fragment"
}

failed() {
	# The first error, not the last: with several jobs the last lines are about jobs that were still
	# running.
	echo "build-kernel: the end of $log:" >&2
	tail -n 15 "$log" >&2
	die "$1 failed ($(grep -m 1 -E 'error:|Error [0-9]|\*\*\*' "$log" || echo "no error line in the log")); log kept in $log"
}

[ -d "$tree" ] || make_tree
[ "$(cat "$out/source")" = "$source" ] || die "$out was built from $(cat "$out/source"): remove it, or choose another folder"
: >"$log"
stage=$(mktemp -d "$out/stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
patch_stage "$stage"
bring "$stage"
make_config
say "compiling in $build (log: $log)"
run_make -j"$(nproc)" bzImage || failed "the build"
image=$build/arch/x86/boot/bzImage
[ -s "$image" ] || failed "the build"
echo "$image"
