#!/bin/sh
# Builds the small program that enters sandboxes, for a processor (amd64, arm64). Builds of biplane for Linux with the
# tag "entry" embed it. The same source and release of Go make the same bytes.
#
#   scripts/entry.sh PROCESSOR [FILE]
set -eu
cd "$(dirname "$0")/.."
file=${2:-$PWD/internal/exec/sandbox/process/built/entry_$1}
GOFLAGS= GOOS=linux GOARCH=$1 GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=0 ${GO:-go} build -trimpath -buildvcs=false \
	-ldflags '-s -w -buildid=' -o "$file" ./internal/exec/sandbox/process/entry/program
