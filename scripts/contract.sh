#!/bin/sh
# Holds the inventory service to its OpenAPI document: openapi-spec-validator checks the document, and Schemathesis
# asks a live service for everything that the document allows and for much that it does not.
#
# usage: contract.sh [--install] [SCHEMATHESIS-OPTION...]
#
# Installs the versions in scripts/contract/requirements.txt into a private folder below the target folder, unless they
# are there already. Needs python3 with venv; with --install, apt brings it, which needs root. Redis, PostgreSQL and the
# service run on 127.0.0.1 and end with the run. CONTRACT_EXAMPLES (default 40) bounds the requests of each test.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf 'contract: %s\n' "$*" >&2
    exit 1
}

has_venv() {
    python3 -c 'import ensurepip, venv' 2>/dev/null
}

if [ "${1:-}" = --install ]; then
    shift
    if ! has_venv; then
        [ "$(id -u)" -eq 0 ] || fail "--install needs root"
        command -v apt-get >/dev/null || fail "--install knows apt only: install python3 with venv"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv </dev/null
    fi
fi
has_venv || fail "python3 with its venv module is missing: install it (Debian: python3-venv), or add --install as root"

here=$PWD/scripts/contract
mkdir -p "${CARGO_TARGET_DIR:-target}/contract"
folder=$(cd "${CARGO_TARGET_DIR:-target}/contract" && pwd)

# What is installed there, written last: a folder without it is begun anew.
pinned=$(cat "$here/requirements.txt" && python3 --version)
if [ "$(cat "$folder/pinned" 2>/dev/null || :)" != "$pinned" ]; then
    rm -rf "${folder:?}"/*
    printf 'contract: installing Schemathesis and openapi-spec-validator in %s\n' "$folder"
    python3 -m venv "$folder/python"
    "$folder/python/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$here/requirements.txt"
    printf '%s\n' "$pinned" >"$folder/pinned"
fi

# As `make test` builds them, so that nothing is built twice.
"${CARGO:-cargo}" build --locked --workspace --all-features --bins
programs=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)
exec "$programs/testbed" exec -- "$here/run.sh" "$programs/inventory" "$folder" "$@"
