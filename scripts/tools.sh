#!/usr/bin/env bash
# Installs what the tests run against into .tools: the npm packages of internal/lab/peertest/package.json. Where npm, the C
# compiler that the race detector needs or the type checker of Python's stubs is missing, it asks Debian's package manager,
# as root only.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { # command, Debian packages
	command -v "$1" >/dev/null 2>&1 && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "installing $2"
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $2 >/dev/null
	else
		echo "make test needs $1 on the PATH (Debian: apt-get install $2)" >&2
		exit 1
	fi
}

need gcc "gcc libc6-dev"
need npm "npm"
need mypy "mypy"

lock=internal/lab/peertest/package-lock.json
if ! cmp -s "$lock" .tools/.installed; then
	echo "installing the test peers from npm into .tools"
	mkdir -p .tools
	cp internal/lab/peertest/package.json "$lock" .tools/
	(cd .tools && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error)
	cp "$lock" .tools/.installed
fi
