#!/bin/sh
# Holds the inventory service to its OpenAPI document: openapi-spec-validator checks the document, and Schemathesis
# asks a live service for everything that the document allows and for much that it does not.
#
# usage: contract.sh [SCHEMATHESIS-OPTION...]
#
# Installs the versions in scripts/contract/requirements.txt into a private folder below the target folder, unless they
# are there already. Needs python3 with venv. Redis, PostgreSQL and the service run on 127.0.0.1 and end with the
# run. CONTRACT_EXAMPLES (default 40) bounds the requests of each test.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib/private.sh

has_venv || fail "python3 with its venv module is missing: $REMEDY"

scripts=$PWD/scripts
fill() {
    fill_python "$scripts/contract"
}
private_folder contract "$(cat scripts/contract/requirements.txt && python3 --version)"

build_programs
cd "$folder"
export LAB=on
exec "$programs/testbed" exec -- "$scripts/lib/serving.sh" "$programs/inventory" "$scripts/contract/run.sh" "$@"
