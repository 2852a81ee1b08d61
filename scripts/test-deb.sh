#!/usr/bin/env bash
# Builds the package in a minimal Debian and installs it in another one, where nobody has compiled
# anything: the command records there, and removing the package leaves nothing. Prints what lintian
# says and how long it takes. Needs to be root.
#
# usage: test-deb.sh SUITE [PACKAGE]   (bookworm or trixie; PACKAGE: one built for it before)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source-path=SCRIPTDIR source=lib/apt.sh
. scripts/lib/apt.sh
# shellcheck source-path=SCRIPTDIR source=lib/fresh.sh
. scripts/lib/fresh.sh

suite=${1:?give bookworm or trixie}
fault=$(mktemp)
package=$(mktemp -d)
trap 'rm -rf "$fault" "$package"; fresh_remove' EXIT

die() {
	echo "test-deb: error: $*" >&2
	exit 1
}

if [ -n "${2-}" ]; then
	cp "$2" "$package"
else
	fresh_make "$suite" >"$fault" || die "$(cat "$fault")"
	fresh_run "make deb" >"$package/log" 2>&1 || die "make deb fails: $(tail -n 3 "$package/log")"
	fresh_run "apt-get install -y -q lintian >/dev/null 2>&1; lintian --fail-on error,warning target/deb/*.deb" ||
		die "lintian is not content"
	cp "$fresh_root/$fresh_checkout"/target/deb/*.deb "$package"
	fresh_remove
fi

fresh_make "$suite" >"$fault" || die "$(cat "$fault")"
rm -rf "${fresh_root:?}/$fresh_checkout"
mkdir "$fresh_root/$fresh_checkout"
cp "$package"/*.deb "$fresh_root/$fresh_checkout"
# QEMU with plugins is in Debian 12's backports alone.
options=
if [ "$suite" = bookworm ]; then
	apt_line bookworm-backports "$(apt_archive_like bookworm-backports "$(os_release VERSION_CODENAME)")" >>"$fresh_root/etc/apt/sources.list"
	options="-t bookworm-backports"
fi
fresh_run "apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends $options --download-only ./*.deb >/dev/null"
started=$SECONDS
fresh_run "DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $options ./*.deb >/dev/null 2>&1" ||
	die "the package cannot be installed"
echo "test-deb: installed in $((SECONDS - started)) s, after the downloads"
fresh_run "cd /tmp && linemate --version && linemate record -- ls && linemate report --type rq --top 3 && linemate doctor" ||
	die "the installed command does not record"
echo "test-deb: installed and recorded in $((SECONDS - started)) s, the kernel's download included"
# The templates for a project's CI, in a small project that breaks one of its rules: their steps run
# here as a runner would run them, with the package from a file.
project=$fresh_root/project
mkdir "$project"
cp ci/github.yml ci/gitlab.yml scripts/ci_steps.py "$project"
cat >"$project/conn.c" <<-'END'
	#include <stdlib.h>
	struct conn { long refs; long mask; } conn;
	int main(int argc, char **argv)
	{
		for (long i = argc > 1 ? atol(argv[1]) : 1; i > 0; i--)
			conn.refs += conn.mask;
		return 0;
	}
END
printf 'type conn\napart refs from mask\n\tbecause "every request reads mask"\n' >"$project/linemate.rules"
printf 'conn: conn.c\n\tcc -g -O0 -o conn conn.c\n' >"$project/Makefile"
variables="export PACKAGE=file:///$fresh_checkout/$(basename "$package"/*.deb) DEPENDS='gcc libc6-dev make' BUILD=make PROGRAM=conn RULES=linemate.rules COMPARE=100 TYPE=conn MACHINE=gnr-2s-480
for name in PACKAGE DEPENDS BUILD PROGRAM RULES; do export LINEMATE_\$name=\"\${!name}\"; done
cd /project"
fresh_run "apt-get install -y -q --no-install-recommends python3-yaml >/dev/null 2>&1"
# GitHub's verdict is a step of its own; GitLab's job ends with it.
for steps in "0 github.yml install build check" "1 gitlab.yml linemate"; do
	rm -f "$project/linemate.sarif"
	status=0
	fresh_run "$variables; python3 ci_steps.py ${steps#* } >steps; bash -e steps >steps.log 2>&1" || status=$?
	[ "$status" = "${steps%% *}" ] || die "$steps: exit code $status: $(tail -n 3 "$project/steps.log")"
	[ "$(grep -c '"ruleId"' "$project/linemate.sarif")" = 1 ] || die "$steps: not one finding in linemate.sarif"
done
[ "$(cat "$project/linemate.status")" = 1 ] || die "the broken rule does not fail the job"
fresh_run "$variables; mkdir linemate-base; cp Makefile conn.c linemate-base; python3 ci_steps.py github.yml compare >steps; bash -e steps >steps.log 2>&1" ||
	die "compare: $(tail -n 3 "$project/steps.log")"
grep '^::notice title=linemate::conn' "$project/steps.log" || die "no notice about conn: $(tail -n 3 "$project/steps.log")"

fresh_run "apt-get purge -y -q linemate >/dev/null 2>&1; ! find / -xdev -path /root -prune -o -path /project -prune -o -path /tmp -prune -o -path /proc -prune -o -name '*linemate*' -print | grep -v '^/var/lib/dpkg\|^/var/log\|^/var/cache' | grep ." ||
	die "removing the package leaves these files"
echo "test-deb: passed in $suite"
