#!/bin/sh
# Tests the load test: its types are right, its scripts pass against the service, and they fail on a service that loses
# an update, sells nothing or applies an update twice. k6 is not needed: loadtest/stand-in takes its place, which makes
# no load.
#
# usage: loadtest.sh
#
# Installs TypeScript and the types of k6, as pinned in scripts/loadtest, into a private folder below the target folder,
# unless they are there already. Needs node (18.19 or newer) and npm. The servers run on 127.0.0.1 and end with the run.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf 'loadtest: %s\n' "$*" >&2
    exit 1
}

command -v node >/dev/null && command -v npm >/dev/null ||
    fail "node or npm is missing: install Node.js 18.19 or newer with npm, or call scripts/interop.sh --install as root"

here=$PWD/scripts/loadtest
mkdir -p "${CARGO_TARGET_DIR:-target}/loadtest"
folder=$(cd "${CARGO_TARGET_DIR:-target}/loadtest" && pwd)

# What is installed there, written last: a folder without it is begun anew.
pinned=$(cat "$here/package-lock.json" && node --version)
if [ "$(cat "$folder/pinned" 2>/dev/null || :)" != "$pinned" ]; then
    rm -rf "${folder:?}"/*
    printf 'loadtest: installing TypeScript and the types of k6 in %s\n' "$folder"
    cp "$here/package.json" "$here/package-lock.json" "$folder"
    (cd "$folder" && npm ci --silent --no-audit --no-fund --ignore-scripts)
    printf '%s\n' "$pinned" >"$folder/pinned"
fi

node "$folder/node_modules/typescript/bin/tsc" --noEmit --allowJs --checkJs --strict --types k6 \
    --typeRoots "$folder/node_modules/@types" --target es2022 --module esnext --moduleResolution bundler \
    loadtest/*.js
printf 'loadtest: types are right\n'

"$here/fakes.sh" "$folder"

# As `make test` builds them, so that nothing is built twice.
"${CARGO:-cargo}" build --locked --workspace --all-features --bins
programs=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)
exec "$programs/testbed" exec -- "$here/live.sh" "$programs/inventory" "$folder"
