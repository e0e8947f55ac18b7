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

fail() {
    printf 'interop: %s\n' "$*" >&2
    exit 1
}

has_venv() {
    python3 -c 'import ensurepip, venv' 2>/dev/null
}

has_node() {
    command -v node >/dev/null && command -v npm >/dev/null
}

# Distributions differ in whether node brings npm along.
install() {
    [ "$(id -u)" -eq 0 ] || fail "--install needs root"
    command -v apt-get >/dev/null || fail "--install knows apt only: install python3 with venv, and node with npm"
    packages=
    has_venv || packages="python3 python3-venv"
    command -v node >/dev/null || packages="$packages nodejs"
    command -v npm >/dev/null || packages="$packages npm"
    printf 'interop: apt installs %s\n' "$packages"
    apt-get update -qq
    # shellcheck disable=SC2086 # one word per package
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages </dev/null
}

[ "${1:-}" != --install ] || { has_venv && has_node; } || install
has_venv || fail "python3 with its venv module is missing: install it (Debian: python3-venv), or call scripts/interop.sh --install as root"
has_node || fail "node or npm is missing: install Node.js 18 or newer with npm, or call scripts/interop.sh --install as root"

peers=$PWD/crates/stockade/tests/interop/peers
mkdir -p "${CARGO_TARGET_DIR:-target}/interop"
folder=$(cd "${CARGO_TARGET_DIR:-target}/interop" && pwd)

# What is installed there, written last: a folder without it is begun anew.
pinned=$(cat "$peers/requirements.txt" "$peers/package-lock.json" && python3 --version && node --version)
if [ "$(cat "$folder/pinned" 2>/dev/null || :)" != "$pinned" ]; then
    rm -rf "${folder:?}"/*
    printf 'interop: installing redis-py, pottery and redlock in %s\n' "$folder"
    python3 -m venv "$folder/python"
    "$folder/python/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$peers/requirements.txt"
    cp "$peers/package.json" "$peers/package-lock.json" "$folder"
    (cd "$folder" && npm ci --silent --no-audit --no-fund --ignore-scripts)
    printf '%s\n' "$pinned" >"$folder/pinned"
fi

export INTEROP_PYTHON="$folder/python/bin/python"
INTEROP_NODE=$(command -v node)
export INTEROP_NODE
export INTEROP_NODE_MODULES="$folder/node_modules"
# As `make test` builds it, so that nothing is built twice.
exec "${CARGO:-cargo}" test --locked --workspace --all-features --test interop
