#!/bin/sh
# Holds the dashboards to the types that Grafana publishes for them: a field that Grafana does not know, or a value that
# it does not take, fails. The types leave the fields of a query open; the tests of the service run the queries.
#
# usage: dashboards.sh
#
# Installs TypeScript and the types of the Grafana that docker-compose.yml names, as pinned in scripts/dashboards, into a
# private folder below the target folder, unless they are there already. Needs node and npm.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib/private.sh

has_node || fail "node or npm is missing: $REMEDY"

scripts=$PWD/scripts
fill() {
    fill_node "$scripts/dashboards"
}
private_folder dashboards "$(cat scripts/dashboards/package-lock.json && node --version)"

types=$(sed -n 's/.*"@grafana\/schema": "\(.*\)".*/\1/p' scripts/dashboards/package.json)
grep -q "image: grafana/grafana:$types\$" docker-compose.yml ||
    fail "scripts/dashboards has the types of Grafana $types, docker-compose.yml another version: change one of them"

# A file that is gone must not be held to the types by its copy.
rm -f "$folder"/*.ts
cp scripts/dashboards/dashboard.ts "$folder"
# As literals: an imported JSON file would have its values widened to `string`, and unknown fields allowed.
for file in dashboards/grafana/*.json; do
    { printf 'import type { OurDashboard } from "./dashboard";\nexport const dashboard: OurDashboard =\n'; cat "$file"; } \
        >"$folder/$(basename "$file" .json).ts"
done
cd "$folder"
node node_modules/typescript/bin/tsc --noEmit --strict --skipLibCheck --target es2022 --module esnext \
    --moduleResolution bundler ./*.ts
printf 'dashboards: panels, variables, annotations and links are as Grafana %s has them\n' "$types"
