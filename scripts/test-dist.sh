#!/usr/bin/env bash
# Tests of scripts/dist.sh: the same commit gives the same bytes, the archive names its commit, and
# the list of dependencies has what is built, with checksums.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "test-dist: error: $*" >&2
	exit 1
}

# A repository of one commit, whatever the checkout has and has changed.
mkdir "$work/clone"
git ls-files -z --deduplicate | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
	tar -c --null --no-recursion -T - | tar -x -C "$work/clone"
cd "$work/clone"
git init -q
git add -A
git -c user.name=test -c user.email=test@example.org commit -q -m "A tree"
scripts/dist.sh "$work/first" >/dev/null
touch -d 2001-01-01 README.md
scripts/dist.sh "$work/second" >/dev/null
diff -r "$work/first" "$work/second" >&2 || fail "the same commit gives other bytes"
(cd "$work/first" && sha256sum --quiet -c ./*.sha256) || fail "the checksums are not those of the files"

commit=$(git rev-parse HEAD)
tar -xzf "$work"/first/*.tar.gz -C "$work"
[ "$(cat "$work"/linemate-*/COMMIT)" = "$commit" ] || fail "COMMIT in the archive is not $commit"
[ -z "$(cd "$work"/linemate-*/ && ls -d .git 2>/dev/null)" ] || fail "the archive holds a repository"

# One that is built, one of the page, one of another system.
for name in zstd d3-scale; do
	grep -A 20 "\"name\": \"$name\"" "$work"/first/*.cdx.json | grep -m 1 -q '"content": "[0-9a-f]\{64,128\}"' ||
		fail "$name has no checksum in the list of dependencies"
done
! grep -q windows-sys "$work"/first/*.cdx.json || fail "the list of dependencies has those of another system"

echo x >>README.md
! scripts/dist.sh "$work/third" 2>"$work/said" || fail "an archive of a changed tree"
grep -qx 'dist: error: files were changed: commit or stash them first' "$work/said" || fail "of a changed tree it says: $(cat "$work/said")"
echo "test-dist: passed"
