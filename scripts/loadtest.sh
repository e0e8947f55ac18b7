#!/bin/sh
# Tests the load test: its types are right, its scripts pass against the service, and they fail on a service that loses
# an update, sells nothing, applies an update twice, or loads a value once for each reader. k6 is not needed:
# loadtest/stand-in takes its place, which makes no load.
#
# usage: loadtest.sh
#
# Installs TypeScript and the types of k6, as pinned in scripts/loadtest, into a private folder below the target folder,
# unless they are there already. Needs node and npm. The servers run on 127.0.0.1 and end with the run.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib/private.sh

has_node || fail "node or npm is missing: $REMEDY"

scripts=$PWD/scripts
fill() {
    fill_node "$scripts/loadtest"
}
private_folder loadtest "$(cat scripts/loadtest/package-lock.json && node --version)"

node "$folder/node_modules/typescript/bin/tsc" --noEmit --allowJs --checkJs --strict --types k6 \
    --typeRoots "$folder/node_modules/@types" --target es2022 --module esnext --moduleResolution bundler \
    loadtest/*.js
printf 'loadtest: types are right\n'

"$scripts/loadtest/fakes.sh"

build_programs
cd "$folder"
exec "$programs/testbed" exec -- "$scripts/lib/serving.sh" "$programs/inventory" "$scripts/loadtest/live.sh"
