#!/usr/bin/env bash
# Puts large public OpenAPI documents into .tools/documents: those of the npm packages in
# internal/lab/peertest/documents/package.json, and one file of each Go module below. `make documents` counts what
# becomes of their operations.
set -euo pipefail
cd "$(dirname "$0")/.."

from=internal/lab/peertest/documents
to=.tools/documents
if cmp -s "$from/package-lock.json" "$to/.npm" && cmp -s scripts/documents.sh "$to/.script"; then
	exit
fi
mkdir -p "$to"
cp "$from/package.json" "$from/package-lock.json" "$to/"
echo "installing OpenAPI documents from npm and Go modules into $to"
(cd "$to" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error)
cp "$to/node_modules/@octokit/openapi/generated/api.github.com.json" "$to/github.json"
cp "$to/node_modules/@figma/rest-api-spec/openapi/openapi.yaml" "$to/figma.yaml"

work=$(mktemp -d) # outside of the module, whose requirements stay as they are
trap 'rm -rf "$work"' EXIT
module() { # name, module, file
	dir=$(cd "$work" && go mod download -json "$2" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	cp "$dir/$3" "$to/$1"
	chmod u+w "$to/$1"
}
module stripe.json github.com/stripe/stripe-mock@v0.203.0 embedded/openapi/spec3.json
module kubernetes.json k8s.io/kubernetes@v1.36.3 api/openapi-spec/swagger.json
module docker.yaml github.com/moby/moby/api@v1.56.1 swagger.yaml
module hydra.json github.com/ory/hydra/v2@v2.3.0 spec/api.json
module weaviate.json github.com/weaviate/weaviate@v1.35.2 openapi-specs/schema.json
cp "$from/package-lock.json" "$to/.npm"
cp scripts/documents.sh "$to/.script"
