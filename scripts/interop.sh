#!/bin/sh
# Shows that locks by quorum are shared with other programs: redis-py and pottery (Python), redlock (Node.js).
#
# usage: interop.sh
#
# Installs the versions that crates/stockade/tests/interop/peers pins into a private folder below the target folder, unless
# they are there already, and runs the test beside them. Needs python3 with venv, and node with npm.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib/private.sh

has_venv || fail "python3 with its venv module is missing: $REMEDY"
has_node || fail "node or npm is missing: $REMEDY"

peers=$PWD/crates/stockade/tests/interop/peers
fill() {
    fill_python "$peers"
    fill_node "$peers"
}
private_folder interop \
    "$(cat "$peers/requirements.txt" "$peers/package-lock.json" && python3 --version && node --version)"

export INTEROP_PYTHON="$folder/python/bin/python"
INTEROP_NODE=$(command -v node)
export INTEROP_NODE
export INTEROP_NODE_MODULES="$folder/node_modules"
# As `make test` builds it, so that nothing is built twice.
exec scripts/tests.sh --test interop
