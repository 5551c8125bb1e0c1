// Package identity says on whose behalf a request is made.
//
// Requests come over stdio, a unix socket that only its owner can open, or the loopback interface: all are the local
// user's. A listener that anyone else could reach is refused where the configuration is read.
package identity

import (
	"os"
	"os/user"
	"strconv"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Local gives the Principal of the user who runs this process: "local:<login name>", or "local:uid-<number>" where the
// system knows no name.
func Local() tool.Principal {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return tool.Principal{ID: "local:" + u.Username}
	}
	return tool.Principal{ID: "local:uid-" + strconv.Itoa(os.Getuid())}
}
