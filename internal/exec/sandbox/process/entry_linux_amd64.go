//go:build entry

package process

import _ "embed"

// entryProgram is the program of package entry, which scripts/entry.sh builds.
//
//go:embed built/entry_amd64
var entryProgram []byte
