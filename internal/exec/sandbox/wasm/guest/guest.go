// Package guest holds the JavaScript half of the embedded engine: the runtime that is evaluated
// once into the golden image and in which every program runs. It provides the web APIs that the
// engine lacks and the access to tools, and implements the guest's end of the protocol of package
// sandbox.
//
// The sources are in src, one noun per file. bundle_test.go bundles them, with the libraries of
// third_party, into guest.js, and then creates the engine's golden image from it (js.image, in
// package wasm):
//
//	go generate ./internal/exec/sandbox/wasm/guest
//
// The documentation of package wasm describes the contract with the driver.
package guest

import _ "embed"

//go:generate go test -run ^TestBundle$ . -update
//go:generate go test -run ^TestGolden$ .. -update

// Source is the runtime's script.
//
//go:embed guest.js
var Source string
