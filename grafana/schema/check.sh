#!/bin/sh
# Holds grafana/dashboards/*.json against the types that Grafana publishes for them (@grafana/schema). No Grafana server
# is needed, and none would read these files with other eyes: the types are generated from the schema that it uses.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
for tool in node npm; do
  command -v "$tool" >/dev/null 2>&1 || { echo "dashboards-schema: $tool is missing" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/package.json" "$here/package-lock.json" "$here/tsconfig.json" "$work"
(cd "$work" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error)
node "$here/as-typescript.mjs" "$here/../dashboards" > "$work/dashboards.ts"
(cd "$work" && ./node_modules/.bin/tsc --project tsconfig.json)
echo "dashboards-schema: every dashboard is of Grafana's types"
