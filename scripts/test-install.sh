#!/usr/bin/env bash
# Tests of `make install` with what scripts/test.sh has built: the installed command works from anywhere, without the
# checkout, and `make uninstall` leaves nothing behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "test-install: error: $*" >&2
	exit 1
}

# Only root can hide the checkout from the command; without root, the command just runs elsewhere.
hidden() {
	if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
		# shellcheck disable=SC2016 # for the inner shell
		unshare --mount bash -euc 'mount -t tmpfs none "$1"; cd /; shift; exec "$@"' hidden "$PWD" "$@"
	else
		(cd / && exec "$@")
	fi
}

export PREFIX=$work/own BUILT=${BUILT:-$PWD/target/debug}
scripts/install.sh install >/dev/null
linemate=$PREFIX/bin/linemate

hidden "$linemate" machines | grep -q gnr-2s-480 || fail "the installed command knows no machines"
# doctor's self-test runs a guest with the installed recorder.
hidden env -u LINEMATE_RECORDER "$linemate" doctor >"$work/doctor" 2>&1 || fail "doctor: $(cat "$work/doctor")"

hidden "$linemate" layout rq --kernel debian:6.1 >"$work/layout" || fail "the installed command finds no kernel by its name"
grep -q '^struct rq {' "$work/layout" || fail "layout of a kernel by name: $(head -n 1 "$work/layout")"

# The workflow of cases is part of the command. No kernel is built here: that a step fails shows that it was started.
mkdir -p "$work/case/tree"
touch "$work/case/tree/Makefile" "$work/case/config"
printf '#!/bin/sh\necho there is no compiler >&2\nexit 1\n' >"$work/case/build.sh"
chmod 755 "$work/case/build.sh"
cat >"$work/case/case.toml" <<-END
	name = "installed"
	summary = "a case outside of a checkout"
	types = ["rq"]
	machines = ["gnr-2s-480"]
	kernel.built = true
	build = { source = "tree", config = "config", script = "build.sh" }
	guest.cpus = 1
	workload.command = ["busybox", "true"]
END
! hidden "$linemate" case run --cache "$work/cases" "$work/case" 2>"$work/log" || fail "a case whose build fails succeeds"
said=$(tail -n 1 "$work/log")
[[ $said == "linemate: installed: build the kernel without patches: there is no compiler (log: "* ]] || fail "a case: $said"

version=$("$linemate" --version)
for file in share/man/man1/linemate.1 share/man/man1/linemate-record.1 share/linemate/machines/gnr-2s-480.toml \
	share/linemate/rules/sched.rules share/doc/linemate/LICENSE-GPL-2.0 share/doc/linemate/python/README.md; do
	[ -s "$PREFIX/$file" ] || fail "$file is not installed"
done
grep -q "${version#linemate }" "$PREFIX/share/man/man1/linemate.1" || fail "the manual page is not about $version"
for verb in $("$linemate" --help | sed -nE 's/^  ([a-z]+)  .*/\1/p' | grep -v '^help$'); do
	[ -s "$PREFIX/share/man/man1/linemate-$verb.1" ] || fail "$verb has no manual page"
	for file in share/bash-completion/completions/linemate share/fish/vendor_completions.d/linemate.fish \
		share/zsh/site-functions/_linemate; do
		grep -qw -- "$verb" "$PREFIX/$file" || fail "$file does not know $verb"
	done
done
# Help and manual pages are of one source.
named=$(cat "$PREFIX"/share/man/man1/*.1 "$PREFIX/share/doc/linemate/README.md" | sed 's/\\-/-/g' | grep -oE '(docs|evidence)/[a-zA-Z0-9./-]*[a-z0-9]' | sort -u)
[ "$(wc -l <<<"$named")" -gt 20 ] || fail "help, manual pages and README name no files: $named"
for file in ARCHITECTURE.md $named; do
	[ -s "$PREFIX/share/doc/linemate/$file" ] || fail "$file is named, and is not installed"
done
"$linemate" --help | grep -q 'share/doc/linemate' || fail "the help does not say where docs/ is"
bash -n "$PREFIX/share/bash-completion/completions/linemate" || fail "bash cannot read its completions"

scripts/install.sh uninstall >/dev/null
left=$(find "$PREFIX" -type f)
[ -z "$left" ] || fail "make uninstall leaves $left"
for folder in lib/linemate share/linemate share/doc/linemate; do
	[ ! -e "$PREFIX/$folder" ] || fail "make uninstall leaves the folder $folder"
done
! scripts/install.sh uninstall >/dev/null 2>&1 || fail "there is nothing to uninstall, and that is not told"

DESTDIR=$work/stage PREFIX=/usr scripts/install.sh install >/dev/null
[ -x "$work/stage/usr/bin/linemate" ] || fail "DESTDIR is not in front of PREFIX"
echo "test-install: passed"
