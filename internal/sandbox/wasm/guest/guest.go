// Package guest holds the JavaScript half of the embedded engine: the runtime that is evaluated once into the golden
// image and in which every program runs. It gives programs the web interfaces that the engine lacks, the ways to reach
// tools, and speaks the guest's end of the protocol of package sandbox.
//
// The sources are in src, one noun a file; bundle_test.go bundles them, with the libraries of third_party, into
// guest.js, of which the golden image of the engine (js.image, beside package wasm) is made at once:
//
//	go generate ./internal/sandbox/wasm/guest
//
// The contract with the driver stands in the documentation of package wasm.
package guest

import _ "embed"

//go:generate go test -run ^TestBundle$ . -update
//go:generate go test -run ^TestGolden$ .. -update

// Source is the runtime, a script.
//
//go:embed guest.js
var Source string
