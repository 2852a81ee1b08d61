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
installed=$((SECONDS - started))
# How long fetching the kernel takes, which the first recording does.
started=$SECONDS
fresh_run "LINEMATE_CACHE=/tmp/fetched /usr/share/linemate/scripts/kernel-image.sh debian:6.12; rm -r /tmp/fetched" >/dev/null 2>&1 ||
	die "the kernel cannot be fetched"
fetched=$((SECONDS - started))
started=$SECONDS
fresh_run "cd /tmp && linemate record -- ls" || die "the installed command does not record"
recorded=$((SECONDS - started))
echo "test-deb: installed in $installed s, recorded in $recorded s, of which fetching the kernel takes $fetched s"
fresh_run "cd /tmp && linemate --version && linemate report --type rq --top 3 && linemate doctor" || die "the installed command does not answer"
# The templates for a project's CI, from an empty repository: a change that breaks a rule, and the
# steps that a runner would run, here, with the package from a file.
project=$fresh_root/project
mkdir "$project"
cp ci/github.yml ci/gitlab.yml scripts/ci_steps.py "$project"
# conn MEMBERS: the program, whose struct has these; the line of mask is 4.
conn() {
	cat >"$project/conn.c" <<-END
		#include <stdlib.h>
		struct conn {
			long refs;
			$1
		} conn;
		int main(int argc, char **argv)
		{
			for (long i = argc > 1 ? atol(argv[1]) : 1; i > 0; i--)
				conn.refs += conn.mask;
			return 0;
		}
	END
}
printf 'type conn\napart refs from mask\n\tbecause "every request reads mask"\n' >"$project/linemate.rules"
printf 'conn: conn.c\n\tcc -g -O0 -o conn conn.c\n' >"$project/Makefile"
git="git -c user.name=test -c user.email=test@example.org"
conn "_Alignas(64) long mask;"
fresh_run "cd /project && git init -q && git add Makefile conn.c linemate.rules && $git commit -q -m kept"
conn "long mask;"
fresh_run "cd /project && $git commit -q -a -m broken"
variables="export PACKAGE=file:///$fresh_checkout/$(basename "$package"/*.deb) DEPENDS='gcc libc6-dev make' BUILD=make PROGRAM=conn RULES=linemate.rules COMPARE=100 TYPE=conn MACHINE=gnr-2s-480
for name in PACKAGE DEPENDS BUILD PROGRAM RULES COMPARE TYPE MACHINE; do export LINEMATE_\$name=\"\${!name}\"; done
cd /project; export CI_MERGE_REQUEST_DIFF_BASE_SHA=\$(git rev-parse HEAD^)"
fresh_run "apt-get install -y -q --no-install-recommends python3-yaml >/dev/null 2>&1"
# steps STATUS FILE NAME…: they end with this exit code. What they print is in steps.log.
steps() {
	local expected=$1 status=0
	shift
	fresh_run "$variables; python3 ci_steps.py $* >steps; bash -e steps >steps.log 2>&1" || status=$?
	[ "$status" = "$expected" ] || die "$*: exit code $status: $(tail -n 3 "$project/steps.log")"
}
# says PATTERN: the steps have printed such a line.
says() {
	grep -m 1 "$1" "$project/steps.log" || die "no line $1: $(tail -n 3 "$project/steps.log")"
}
# GitHub's verdict is a step of its own; GitLab's job ends with it.
started=$SECONDS
steps 0 github.yml install build check
says '^::error file=conn.c,line=4,title=linemate::conn, apart refs from mask: refs shares line 0 with mask'
echo "test-deb: from an empty repository to an annotation in $((SECONDS - started)) s"
[ "$(grep -c '"ruleId"' "$project/linemate.sarif")" = 1 ] || die "not one finding in linemate.sarif"
steps 1 github.yml verdict
fresh_run "cd /project && $git worktree add -q linemate-base HEAD^"
steps 0 github.yml compare
says '^::notice title=linemate::conn'
rm -rf "$project/linemate-base" "$project/linemate.sarif" "$project/conn" "$project/linemate.diff"
fresh_run "cd /project && git worktree prune"
steps 1 gitlab.yml linemate
says '^conn.c:4: conn, apart refs from mask'
says '^conn: .* on gnr-2s-480'
grep -q '"path": "conn.c"' "$project/gl-code-quality-report.json" || die "no place in gl-code-quality-report.json"
# What was accepted fails nobody, and is annotated nowhere.
fresh_run "cd /project && linemate check linemate.rules --program conn --write-baseline known.json >/dev/null"
variables+="; export BASELINE=known.json"
steps 0 github.yml check verdict
! grep '^::error' "$project/steps.log" || die "an accepted finding is annotated"
# The rules for the compiler of the types, in three languages: a broken one is an error.
fresh_run "$variables; apt-get install -y -q --no-install-recommends g++ rustc >/dev/null 2>&1
printf 'struct conn { long refs; long mask; };\n#include \"asserts.h\"\nint main() {}\n' >broken.c
printf '#[repr(C)] pub struct conn { pub refs: i64, pub mask: i64 }\ninclude!(\"asserts.rs\");\nfn main() {}\n' >broken.rs
sed 's/long mask/_Alignas(64) long mask/' broken.c >kept.c
sed 's/long mask/alignas(64) long mask/' broken.c >kept.cc
cp broken.c broken.cc
sed 's/pub mask: i64/pub pad: [i64; 7], pub mask: i64/' broken.rs >kept.rs
for compiler in 'c gcc -std=c11 -c' 'cpp g++ -c' 'rust rustc'; do
	set -- \$compiler
	case \$1 in c) end=c file=asserts.h ;; cpp) end=cc file=asserts.h ;; rust) end=rs file=asserts.rs ;; esac
	linemate check linemate.rules --emit \$1 >\$file
	\${*:2} kept.\$end >steps.log 2>&1
	! \${*:2} broken.\$end 2>steps.log
	grep -q 'every request reads mask' steps.log
done" || die "--emit: $(tail -n 3 "$project/steps.log")"

fresh_run "apt-get purge -y -q linemate >/dev/null 2>&1; ! find / -xdev -path /root -prune -o -path /project -prune -o -path /tmp -prune -o -path /proc -prune -o -name '*linemate*' -print | grep -v '^/var/lib/dpkg\|^/var/log\|^/var/cache' | grep ." ||
	die "removing the package leaves these files"
echo "test-deb: passed in $suite"
