#!/usr/bin/env bash
# The source archive of the committed tree, what it depends on (CycloneDX), and checksums of both,
# in target/dist. The same commit gives the same bytes.
#
# usage: dist.sh [FOLDER]   (default: target/dist)
set -euo pipefail
# Relative to the caller's folder.
folder=${1:+$(realpath -m -- "$1")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
	echo "dist: error: $*" >&2
	exit 2
}

folder=${folder:-target/dist}
commit=$(git rev-parse --verify HEAD 2>/dev/null) || die "this is no git checkout: an archive is made of a commit"
[ -z "$(git status --porcelain --untracked-files=no)" ] || die "files were changed: commit or stash them first"
version=$(git show HEAD:Cargo.toml | sed -n 's/^version = "\(.*\)"$/\1/p;T;q')
name=linemate-$version
mkdir -p "$folder"

# gzip writes neither name nor time; git takes the time of files from the commit.
git archive --format=tar --prefix="$name/" "$commit" | gzip -9n >"$folder/$name.tar.gz"
scripts/sbom.py >"$folder/$name.cdx.json"
(cd "$folder" && sha256sum "$name.tar.gz" "$name.cdx.json" >"$name.sha256")
echo "$folder/$name.tar.gz: commit $commit"
