// Package guest holds the JavaScript half of the embedded engine: the runtime that is evaluated once into the golden
// image and in which every program runs. It gives programs the web interfaces that the engine lacks, the ways to reach
// tools, and speaks the guest's end of the protocol of package sandbox.
//
// The sources are in src, one noun a file; bundle_test.go bundles them, with the libraries of third_party, into
// guest.js:
//
//	go generate ./internal/sandbox/wasm/guest
//
// The contract with the driver: while Source is evaluated as a script there is a global function __host, which the
// runtime takes away: __host("write", s) appends one line of the protocol, with its "\n", to the guest stream;
// __host("now") gives milliseconds since the epoch; __host("random", n) gives 2n hexadecimal digits; __host("timer",
// ms) arms the one next wake-up, none when ms is negative. The value of the script is an object with the methods
// attach() (first in every fresh sandbox), deliver(line), wake(), idle() (whenever the job queue has been drained) and
// unhandled(reason) (a promise was rejected and nobody looks at it). None of them throws, whatever a program did.
package guest

import _ "embed"

//go:generate go test -run ^TestBundle$ . -update

// Source is the runtime, a script.
//
//go:embed guest.js
var Source string
