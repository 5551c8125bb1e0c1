#!/bin/sh
# Records where the embedded engines spend their time, for the compiler of releases (https://go.dev/doc/pgo). Benchmarks are
# the workload.
set -eu
cd "$(dirname "$0")/.."
export GOFLAGS=-trimpath CGO_ENABLED=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
record() { # BENCHMARKS
	n=$((n + 1))
	${GO:-go} test -run '^$' -bench "$1" -benchtime 3s -cpuprofile "$dir/$n.pprof" -o "$dir/test" ./internal/exec/sandbox/wasm
}
record '^BenchmarkCPU$/./^own$'
record '^Benchmark(JSON|Call)$'
record '^BenchmarkPython$/^program$'
${GO:-go} tool pprof -proto "$dir"/*.pprof > internal/lab/release/engines.pgo
