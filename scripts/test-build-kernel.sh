#!/usr/bin/env bash
# Tests of scripts/build-kernel.sh with a substitute for a kernel: a tree whose "image" is one of
# its files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$PWD/scripts/build-kernel.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p linux/scripts/kconfig linux/kernel
echo 'mainmenu "stand-in"' >linux/Kconfig
printf 'one\ntwo\nthree\n' >linux/kernel/a.c
echo gone >linux/kernel/old.c
# Compiles only what is newer than its object, as Linux does, and lists it.
cat >linux/Makefile <<'END'
tinyconfig olddefconfig:
	mkdir -p $(O) && echo $@ >>$(O)/.config
bzImage: $(O)/a.o
	mkdir -p $(O)/arch/x86/boot && cat $(O)/.config $(O)/a.o kernel/new.c kernel/old.c >$(O)/arch/x86/boot/bzImage 2>/dev/null || true
$(O)/a.o: kernel/a.c
	! grep -q broken kernel/a.c || { echo 'kernel/a.c:2: error: broken'; exit 1; }
	echo compiled-a; cp kernel/a.c $@
END
cat >linux/scripts/kconfig/merge_config.sh <<'END'
#!/bin/sh
cat "$5" >>"$3/.config"
END
chmod +x linux/scripts/kconfig/merge_config.sh
echo CONFIG_A=y >fragment

# change TWO FILE: a patch of a.c's second line.
change() {
	printf -- '--- a/kernel/a.c\n+++ b/kernel/a.c\n@@ -1,3 +1,3 @@\n one\n-two\n+%s\n three\n' "$1" >"$2"
}
change TWO upper.patch
change broken broken.patch
printf -- '--- a/kernel/a.c\n+++ b/kernel/a.c\n@@ -1,3 +1,3 @@\n one\n-2\n+3\n three\n' >other.patch
printf -- '--- /dev/null\n+++ b/kernel/new.c\n@@ -0,0 +1 @@\n+new\n--- a/kernel/old.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n' >files.patch
find linux -type f -exec sha256sum {} + | sort >before

fail() {
	echo "test-build-kernel: $*" >&2
	exit 1
}

# image EXPECTED ARGUMENT…: builds, and compares what the image holds, spaces for line ends.
image() {
	local expected=$1 path
	shift
	path=$("$build" "$@" 2>errors | tail -n 1) || fail "$*: $(cat errors)"
	[ "$(tr '\n' ' ' <"$path")" = "$expected " ] || fail "$*: the image holds $(tr '\n' ' ' <"$path"), not $expected"
}

# refused TEXT ARGUMENT…
refused() {
	local expected=$1 status=0
	shift
	"$build" "$@" >out 2>errors || status=$?
	[ "$status" = 2 ] || fail "$*: exit code $status, not 2"
	[ ! -s out ] || fail "$*: something on stdout"
	grep -qF -- "$expected" errors || fail "$*: \`$expected\` is not in: $(cat errors)"
	! grep '^build-kernel' errors | tail -n 1 | grep -qvF -- "$expected" || fail "$*: the last line is not the reason"
}

config="tinyconfig CONFIG_A=y olddefconfig"
image "$config one two three gone" linux fragment base
grep -q compiled-a base/build.log || fail "nothing was compiled"
image "$config one two three gone" linux fragment base
! grep -q compiled-a base/build.log || fail "what had not changed was compiled again"

image "$config one TWO three gone" linux fragment base upper.patch
image "$config one two three new" linux fragment base files.patch
image "$config one two three gone" linux fragment base

image "$config one TWO three gone" --from base linux fragment variant upper.patch
image "$config one two three gone" --from base linux fragment copy
! grep -q compiled-a copy/build.log || fail "a copy was compiled again"

refused "other.patch does not apply" linux fragment base other.patch
refused "kernel/a.c:2: error: broken" linux fragment base broken.patch
image "$config one two three gone" linux fragment base
refused "there is no patch nothing.patch" linux fragment base nothing.patch
refused "there is no fragment nothing" linux nothing base
refused "is not a kernel source tree" work fragment base
refused "is within the sources" linux fragment linux/out
cp -r linux second
refused "was built from" second fragment base
touch second/.config
refused "make mrproper" second fragment third

find linux -type f -exec sha256sum {} + | sort | cmp - before || fail "the sources were written to"
echo "test-build-kernel: all passed"
