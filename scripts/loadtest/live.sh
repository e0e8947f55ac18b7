#!/bin/sh
# What loadtest.sh runs beside the service: every script passes against it.
#
# usage: live.sh, with SERVICE_URL, OPS_URL and ADMIN_TOKEN set
set -eu
loadtest=$(cd "$(dirname "$0")/../../loadtest" && pwd)

for script in "$loadtest"/*.js; do
    name=$(basename "$script")
    # Four reads for each write; twenty between two times that a cached value is dropped.
    SKUS=5 FLASH_UNITS=10 READ_RATE=20 WRITE_RATE=5 DROP_EVERY=1 TARGETS=$SERVICE_URL OPS=$OPS_URL \
        node "$loadtest/stand-in/run.mjs" "$script" 20 3 || {
        printf 'loadtest: %s against the service: status %s, not 0\n' "$name" $? >&2
        exit 1
    }
    printf 'loadtest: %s against the service: status 0\n' "$name"
done
