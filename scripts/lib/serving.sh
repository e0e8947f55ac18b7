#!/bin/sh
# Runs a command beside the inventory service, and ends the service. The addresses of its ports are in SERVICE_URL and
# OPS_URL; the admin routes take the token ADMIN_TOKEN.
#
# usage: serving.sh INVENTORY COMMAND [ARGUMENT...], with REDIS_URL and DATABASE_URL set
set -eu
inventory=$1
shift

"$inventory" migrate
says=$(mktemp -d)
export ADMIN_TOKEN=correct-horse
LISTEN_ADDR=127.0.0.1:0 OPS_ADDR=127.0.0.1:0 "$inventory" serve >"$says/addresses" 2>"$says/log" &
service=$!
trap 'kill $service 2>/dev/null || :; wait $service || :; rm -rf "$says"' EXIT
trap 'exit 1' HUP INT TERM
OPS_URL=
tries=0
while [ -z "$OPS_URL" ]; do
    kill -0 $service 2>/dev/null || { cat "$says/log" >&2; exit 1; }
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { printf 'the service does not listen after 30 s:\n' >&2; cat "$says/log" >&2; exit 1; }
    sleep 0.1
    # The last line of the two.
    OPS_URL=$(sed -n 's/^ops on //p' "$says/addresses")
done
SERVICE_URL=$(sed -n 's/^listening on //p' "$says/addresses")
export OPS_URL SERVICE_URL
"$@" || { status=$?; cat "$says/log" >&2; exit $status; }
