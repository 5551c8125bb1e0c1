#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | sort | while read -r file; do
	dir=$(dirname "$file")
	grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | awk '{print $2}' | while read -r target; do
		echo "== $dir $target"
		CGO_ENABLED=0 go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir"
	done
done
