#!/usr/bin/env bash
# Installs the popular MCP servers of internal/lab/peertest/servers/package.json from npm into .tools/servers, without
# running any of their scripts. `make servers` compares calls of their tools with and without Biplane.
set -euo pipefail
cd "$(dirname "$0")/.."

from=internal/lab/peertest/servers
if ! cmp -s "$from/package-lock.json" .tools/servers/.installed; then
	echo "installing MCP servers from npm into .tools/servers"
	mkdir -p .tools/servers
	cp "$from/package.json" "$from/package-lock.json" .tools/servers/
	(cd .tools/servers && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error)
	cp "$from/package-lock.json" .tools/servers/.installed
fi
