// Package nodeguest holds the agent of process sandboxes in which programs run on Node.js: the
// runtime of the embedded engine (package guest) with other modules where that touches the engine.
//
// The modules are in src, and replace those of the same name. Names that begin with "shared:" are
// the modules of package guest. fetch is that of package program. bundle_test.go bundles all into
// agent.js:
//
//	go generate ./internal/exec/sandbox/process/nodeguest
//
// The agent uses Node's own modules, files, timers and web APIs. It speaks the guest protocol with
// the driver over the connection that package process describes.
package nodeguest

import _ "embed"

//go:generate go test -run ^TestBundle$ . -update

// Source is the agent's script.
//
//go:embed agent.js
var Source []byte

// Packages is the folder of the configured npm packages in a sandbox. Node finds them there, as
// in a folder above the program.
const Packages = "/node_modules"

// SearchPath lists the other folders of a sandbox with npm packages, in the order in which they
// are searched.
const SearchPath = "/usr/local/lib/node_modules:/usr/lib/node_modules:/usr/share/nodejs:/usr/share/node_modules"
