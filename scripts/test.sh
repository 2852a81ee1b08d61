#!/usr/bin/env bash
# All tests of the workspace. Unit and documentation tests run in parallel; integration tests one at a time, because many
# of them boot a guest that wants a core and a gigabyte for itself. `make test` has done the set-up by then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

make --no-print-directory workloads
# The tests drive the command and the recorder's plugin as they are built, so both have to be there.
cargo build --workspace
scripts/test-setup.sh
scripts/test-style.sh
scripts/test-build-kernel.sh
cargo test --workspace --lib --bins
cargo test --workspace --doc
RUST_TEST_THREADS=1 cargo test --workspace --test '*'
