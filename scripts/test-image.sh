#!/usr/bin/env bash
# The image that scripts/image.sh has made, as a CI without rights runs it: by podman without root,
# without network, capabilities and /dev/kvm, it records, answers, and checks a rule. Where this is
# root, a user without a name does that, in a mount namespace whose cgroups podman's runtime knows.
#
#   scripts/test-image.sh [NAME]     (linemate)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly name=${1:-linemate}
# Bytes of all its files.
readonly most=400000000
work=$(mktemp -d "${TMPDIR:-/tmp}/linemate-image.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
	echo "test-image: error: $*" >&2
	exit 1
}

size=$(podman image inspect --format '{{.Size}}' "$name") || fail "there is no image $name: run \`make image\`"
[ "$size" -le "$most" ] || fail "the image has $size bytes, $most are the most"
podman save --quiet --format oci-archive --output "$work/image.tar" "$name" || fail "podman cannot save $name"

# The limits and cgroups of a container that a caller without rights can set.
cat >"$work/steps" <<END
set -euo pipefail
podman="podman --log-level=fatal --storage-driver overlay --storage-opt overlay.ignore_chown_errors=true --root $work/storage --runroot $work/run"
trap '\$podman unshare sh -c "umount $work/storage/overlay; rm -rf $work/storage" 2>/dev/null; \$podman system migrate' EXIT
\$podman load --quiet --input $work/image.tar >/dev/null
run="\$podman run --rm --pull never --network none --cap-drop all --security-opt no-new-privileges --cgroups disabled"
run+=" --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --volume $work/out:/work"
shell="\$run --entrypoint sh $name"
run+=" $name"
\$shell -c 'test ! -e /dev/kvm && ! grep -E "^Cap.*:.*[1-9a-f]" /proc/self/status'
\$run record -o ls.data -- ls
\$run report -i ls.data --type rq --json >$work/out/report.json
\$shell -c 'linemate check /usr/share/linemate/rules/sched.rules --kernel /var/cache/linemate/kernels/*/boot/vmlinuz-*' || test \$? = 1
END
mkdir "$work/out" "$work/home"
caller=()
if [ "$(id -u)" = 0 ]; then
	chown -R 12345:12345 "$work"
	caller=(setpriv --reuid 12345 --regid 12345 --clear-groups)
	[ ! -e /sys/fs/cgroup/unified ] || caller=(unshare --mount --propagation private sh -c 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"' sh "${caller[@]}")
fi
started=$SECONDS
"${caller[@]}" env -i PATH="$PATH" HOME="$work/home" XDG_RUNTIME_DIR="$work/home" bash "$work/steps" >"$work/log" 2>&1 ||
	fail "$(tail -n 5 "$work/log")"
grep -q '"typed_share"' "$work/out/report.json" || fail "the report has no ledger: $(head -c 300 "$work/out/report.json")"
echo "test-image: passed in $((SECONDS - started)) s: $((size / 1000000)) MB, recorded without root, capabilities and /dev/kvm"
