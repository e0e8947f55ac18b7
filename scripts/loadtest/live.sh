#!/bin/sh
# What loadtest.sh runs next to Redis and PostgreSQL: every script passes against the service.
#
# usage: live.sh INVENTORY FOLDER, with REDIS_URL and DATABASE_URL set
set -eu
loadtest=$(cd "$(dirname "$0")/../../loadtest" && pwd)
inventory=$1
cd "$2"

"$inventory" migrate
: >addresses
LISTEN_ADDR=127.0.0.1:0 OPS_ADDR=127.0.0.1:0 "$inventory" serve >addresses 2>log &
service=$!
trap 'kill $service 2>/dev/null || :; wait $service || :' EXIT
url=
tries=0
while [ -z "$url" ]; do
    kill -0 $service 2>/dev/null || { cat log >&2; exit 1; }
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { printf 'loadtest: the service does not listen after 30 s:\n' >&2; cat log >&2; exit 1; }
    sleep 0.1
    url=$(sed -n 's/^listening on //p' addresses)
done

for script in "$loadtest"/*.js; do
    name=$(basename "$script")
    SKUS=5 TARGETS=$url node "$loadtest/stand-in/run.mjs" "$script" 20 3 || {
        printf 'loadtest: %s against the service: status %s, not 0\n' "$name" $? >&2
        exit 1
    }
    printf 'loadtest: %s against the service: status 0\n' "$name"
done
