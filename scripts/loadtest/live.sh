#!/bin/sh
# What loadtest.sh runs beside the service: every script passes against it.
#
# usage: live.sh, with SERVICE_URL set
set -eu
loadtest=$(cd "$(dirname "$0")/../../loadtest" && pwd)

for script in "$loadtest"/*.js; do
    name=$(basename "$script")
    SKUS=5 TARGETS=$SERVICE_URL node "$loadtest/stand-in/run.mjs" "$script" 20 3 || {
        printf 'loadtest: %s against the service: status %s, not 0\n' "$name" $? >&2
        exit 1
    }
    printf 'loadtest: %s against the service: status 0\n' "$name"
done
