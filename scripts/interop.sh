#!/bin/sh
# Shows that locks by quorum are shared with other programs: redis-py and pottery (Python), redlock (Node.js).
#
# usage: interop.sh [--install]
#
# Installs the versions that crates/stockade/tests/interop/peers pins into a private folder below the target folder, unless
# they are there already, and runs the test beside them. Needs python3 with venv, and node with npm. With --install, apt
# brings what is missing of these, which needs root; without it, what is missing is named.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib/private.sh

# Distributions differ in whether node brings npm along.
install() {
    has_venv || set -- python3 python3-venv
    command -v node >/dev/null || set -- "$@" nodejs
    command -v npm >/dev/null || set -- "$@" npm
    apt_install "$@"
}

[ "${1:-}" != --install ] || { has_venv && has_node; } || install
has_venv || fail "python3 with its venv module is missing: install it (Debian: python3-venv), or call scripts/interop.sh --install as root"
has_node || fail "node or npm is missing: install Node.js 18 or newer with npm, or call scripts/interop.sh --install as root"

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
exec "${CARGO:-cargo}" test --locked --workspace --all-features --test interop
