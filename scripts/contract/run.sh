#!/bin/sh
# What contract.sh runs beside Redis and PostgreSQL: starts the service, checks its document, asks it, ends it.
#
# usage: run.sh INVENTORY FOLDER [SCHEMATHESIS-OPTION...], with REDIS_URL and DATABASE_URL set
set -eu
here=$(cd "$(dirname "$0")" && pwd)
inventory=$1 folder=$2
shift 2
cd "$folder"

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
    [ $tries -lt 300 ] || { printf 'contract: the service does not listen after 30 s:\n' >&2; cat log >&2; exit 1; }
    sleep 0.1
    url=$(sed -n 's/^listening on //p' addresses)
done

# The SKUs of the document's examples.
python/bin/python - "$url" <<'PYTHON'
import sys, urllib.request
url = sys.argv[1]
for sku in ("85123A", "71053"):
    body = b'{"quantity": 100000}'
    request = urllib.request.Request(f"{url}/stock/{sku}", body, {"Content-Type": "application/json"}, method="PUT")
    urllib.request.urlopen(request, timeout=10).close()
urllib.request.urlretrieve(f"{url}/openapi.json", "openapi.json")
PYTHON
python/bin/openapi-spec-validator --schema 3.1 openapi.json
python/bin/schemathesis --config-file "$here/schemathesis.toml" run "$url/openapi.json" \
    --max-examples "${CONTRACT_EXAMPLES:-40}" --seed 1 --no-color "$@"
