package daemon

import (
	"context"
	"fmt"
	"os"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
)

// checkRecord asks the running process, or one started here, for the state of the record and of the
// checkpoint sinks.
func checkRecord(ctx context.Context, c DoctorConfig, s *config.Config) []Check {
	const part = "record"
	if _, err := os.Stat(c.DataDir); os.IsNotExist(err) {
		return []Check{{Part: part, Name: "log", OK: true, Detail: "there is none yet"}}
	}
	at, err := Attach(ctx, Config{Settings: s, DataDir: c.DataDir, Key: c.Key, Version: c.Version,
		Engine: c.Engine, Log: c.Log})
	if err != nil {
		return []Check{{Part: part, Name: "log", Detail: "not looked at: " + tool.AsError(err).Msg}}
	}
	defer at.Close()
	state, err := at.Client.Audit().ReadState(ctx)
	if err != nil {
		return []Check{{Part: part, Name: "log", Needed: true, Detail: tool.AsError(err).Msg}}
	}
	check := Check{Part: part, Name: "log", Needed: true, OK: state.Error == "", Detail: state.Error}
	if check.OK {
		check.Detail = fmt.Sprintf("%s, %d leaves; biplane audit verify checks all of them", state.Origin, state.Size)
	}
	checks := []Check{check}
	if len(state.Sinks) == 0 {
		return append(checks, Check{Part: part, Name: "checkpoints", OK: true,
			Detail: "stay here: audit.checkpoints in the configuration says where to send them, so that no one here " +
				"can undo them"})
	}
	for _, k := range state.Sinks {
		check := Check{Part: part, Name: "checkpoints", OK: k.Failures == 0, Detail: k.Name + ": "}
		switch {
		case k.Failures > 0:
			check.Detail = fmt.Sprintf("%d attempts failed: %s", k.Failures, k.Error)
		case k.Sent < 0:
			check.Detail += "nothing was sent since the process that answers began; mcp and serve send, and biplane " +
				"audit checkpoint does at once"
		default:
			check.Detail += fmt.Sprintf("has the checkpoint of %d leaves, since %s", k.Sent,
				k.SentAt.Format("2006-01-02 15:04:05Z"))
		}
		checks = append(checks, check)
	}
	return checks
}
