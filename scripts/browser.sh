#!/bin/sh
# Uses the console as a person would, in Chromium, beside two instances of the inventory service.
#
# usage: browser.sh
#
# Installs playwright-core, as pinned in scripts/browser, into a private folder below the target folder, unless it is
# there already. Needs node, npm, psql and Chromium (CHROMIUM names its program); without Chromium it says so and does
# nothing. SCREENSHOTS=folder keeps pictures of what was seen. The servers run on 127.0.0.1 and end with the run.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib/private.sh

has_node || fail "node or npm is missing: $REMEDY"
CHROMIUM=${CHROMIUM:-$(find_chromium)} || {
    printf 'browser: SKIPPED, since there is no Chromium: install it (Debian: chromium), or name it by CHROMIUM\n'
    exit 0
}
export CHROMIUM

scripts=$PWD/scripts
fill() {
    fill_node "$scripts/browser"
}
private_folder browser "$(cat scripts/browser/package-lock.json && node --version)"

build_programs
# Modules are looked for in folders above the file that asks. The rules of the console are tested without a browser.
# A file that is gone must not run again from its copy.
rm -rf "$folder"/*.mjs "$folder/console"
cp -r "$scripts"/browser/*.mjs crates/inventory/console "$folder"
cd "$folder"
INVENTORY=$programs/inventory exec "$programs/testbed" exec -- node --test --test-reporter=spec
