#!/usr/bin/env bash
# The page in headless Chromium: the asset is what web/ gives; pages of small synthetic recordings
# are opened, used by keyboard and mouse, and compared with --json. Debian's chromium, or the
# browser that CHROMIUM names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

CHROMIUM=${CHROMIUM:-$(command -v chromium)}
PAGES=$PWD/target/page
export CHROMIUM PAGES LINEMATE_CACHE=$PAGES/cache

npm --prefix web ci --no-audit --no-fund --loglevel error
npm --prefix web run --silent check
npm --prefix web run --silent build -- --check

# All packages are selected, as in scripts/test.sh: for one alone cargo would compile dependencies
# again.
cargo build --workspace --bin linemate --example recording --example embed
rm -rf "$PAGES"
mkdir -p "$PAGES"
mkdir -m 700 "$LINEMATE_CACHE"

linemate=target/debug/linemate
target/debug/examples/recording "$PAGES/small.data"
target/debug/examples/recording "$PAGES/hostile.data" hostile

# page NAME ARGUMENT…: the page of a question, and what the same question gives with --json.
page() {
	local name=$1
	shift
	"$linemate" "$@" --json --html "$PAGES/$name.html" >"$PAGES/$name.json" 2>"$PAGES/$name.log" ||
		{ cat "$PAGES/$name.log" >&2; exit 1; }
}
page heat report "$PAGES/small.data" --top 400
"$linemate" report "$PAGES/small.data" --type rq --json >"$PAGES/rq.json"
page ranking report "$PAGES/small.data" --machine gnr-2s-480
COLUMNS=400 "$linemate" report "$PAGES/small.data" --machine gnr-2s-480 --all >"$PAGES/ranking.txt"
page costs report "$PAGES/small.data" --machine gnr-2s-480 --type rq --svg "$PAGES/rq.svg"
page whatif whatif "$PAGES/small.data" --type rq -e 'move clock first' -e 'isolate lock' --ablate --machine gnr-2s-480
COLUMNS=400 "$linemate" whatif "$PAGES/small.data" --type rq -e 'move clock first' -e 'isolate lock' --ablate --machine gnr-2s-480 --top 400 >"$PAGES/whatif.txt"
page advise advise "$PAGES/small.data" --type rq --trials 0 --machine gnr-2s-480
page survey advise "$PAGES/small.data" --trials 0 --machine gnr-2s-480
page diff diff "$PAGES/small.data" "$PAGES/hostile.data" --type rq --machine gnr-2s-480
page hostile report "$PAGES/hostile.data" --machine gnr-2s-480

npm --prefix web test
