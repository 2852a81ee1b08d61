#!/usr/bin/env bash
# Runs README.md's examples after `make demo`. They leave what they say: linemate.data, rq.edit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

examples=$(sed -n '/^export PATH=/,/^```$/p' README.md | sed '$d')
[ "$(grep -c '^linemate ' <<<"$examples")" -ge 5 ] || {
	echo "test-readme: error: README.md has no examples that begin with export PATH=" >&2
	exit 1
}
[ -s linemate.data ] || {
	echo "test-readme: error: there is no linemate.data: run \`make demo\`" >&2
	exit 2
}
rm -f rq.edit
# With -x each is shown before it runs, so that the last one shown is the one that failed.
bash -euxo pipefail -c "$examples" </dev/null || {
	echo "test-readme: error: the last example shown fails" >&2
	exit 1
}
[ -s rq.edit ] || {
	echo "test-readme: error: advise has not written rq.edit" >&2
	exit 1
}
echo "test-readme: passed"
