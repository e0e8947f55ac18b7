#!/bin/sh
# What contract.sh runs beside the service: checks its document, then asks for what the document says.
#
# usage: run.sh [SCHEMATHESIS-OPTION...], with SERVICE_URL set, in the folder that contract.sh has filled
set -eu

# The SKUs of the document's examples.
python/bin/python - "$SERVICE_URL" <<'PYTHON'
import sys, urllib.request
url = sys.argv[1]
for sku in ("85123A", "71053"):
    body = b'{"quantity": 100000}'
    request = urllib.request.Request(f"{url}/stock/{sku}", body, {"Content-Type": "application/json"}, method="PUT")
    urllib.request.urlopen(request, timeout=10).close()
urllib.request.urlretrieve(f"{url}/openapi.json", "openapi.json")
PYTHON
python/bin/openapi-spec-validator --schema 3.1 openapi.json
python/bin/schemathesis --config-file "$(dirname "$0")/schemathesis.toml" run "$SERVICE_URL/openapi.json" \
    --max-examples "${CONTRACT_EXAMPLES:-40}" --seed 1 --no-color "$@"
