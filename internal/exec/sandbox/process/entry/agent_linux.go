package entry

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/nodeguest"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/shell"
)

// environmentOf returns the environment of the agent.
func environmentOf(s *Setup) []string {
	out := slices.Clone(shell.Environment)
	if s.Runtime == "js" {
		out = append(out, "NODE_PATH="+nodeguest.SearchPath)
	}
	if s.Network != nil {
		out = append(out, s.Network.Environment...)
		if s.Runtime == "js" { // the variable costs Node 45 ms at its start, this only when TLS begins
			out = slices.DeleteFunc(out, func(v string) bool { return strings.HasPrefix(v, "NODE_EXTRA_CA_CERTS=") })
			out = append(out, "NODE_OPTIONS=--use-openssl-ca")
		}
	}
	return shell.JoinEnvironment(out, s.Environment)
}

// writeShellAgent makes the agent of shells in dir: this program, read-only, and the command tool.
func writeShellAgent(c *caller, dir string, program *Shared) error {
	to := dir + "/" + filepath.Base(shell.Executable)
	bin := dir + strings.TrimPrefix(filepath.Dir(shell.ToolPath), shell.Folder)
	if err := errors.Join(c.makeFile(to, "", 0o755), c.makeFolder(bin),
		c.makeFile(bin+"/"+filepath.Base(shell.ToolPath), shell.ToolScript, 0o755)); err != nil {
		return err
	}
	return program.mountAt(c, to, false)
}
