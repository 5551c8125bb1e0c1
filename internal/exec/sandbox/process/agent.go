package process

import (
	"embed"
	"io/fs"
)

//go:embed agent/*.py
var agent embed.FS

// agentFiles returns the files of the agent, without its runtime's files.
func agentFiles() fs.FS {
	sub, err := fs.Sub(agent, "agent")
	if err != nil {
		panic(err) // the name is valid
	}
	return sub
}
