package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// connection is what `connect -o json` prints.
type connection struct {
	Upstream string `json:"upstream"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	SignIn   string `json:"sign_in"` // how it gets its credentials
}

func connectCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "connect UPSTREAM",
		Short: "Say how an upstream signs in, and whether it is signed in",
		Long: `Says whether an upstream is connected, and where its credentials come from. Signing in through a browser (OAuth) is not
available yet in this build: credentials are what the configuration gives as headers or env.`,
		Example: "  biplane connect linear",
		Args:    exactly("UPSTREAM", "the name of an upstream"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				ups, err := client.Upstreams(ctx)
				if err != nil {
					return err
				}
				i := slices.IndexFunc(ups, func(u api.Upstream) bool { return u.Name == args[0] || u.Namespace == args[0] })
				if i < 0 {
					return &api.Error{Kind: api.NotFound, Message: fmt.Sprintf("no upstream %s: there is %s", args[0], names(ups))}
				}
				how, err := a.signsIn(ups[i])
				if err != nil {
					return err
				}
				return a.connection(ups[i], how, output)
			})
		},
	}
	addOutput(c, &output)
	return c
}

func names(ups []api.Upstream) string {
	if len(ups) == 0 {
		return "none"
	}
	out := make([]string, len(ups))
	for i, u := range ups {
		out[i] = u.Name
	}
	return strings.Join(out, ", ")
}

// signsIn says where the credentials of an upstream come from: what the configuration gives it, and nothing else.
func (a *app) signsIn(u api.Upstream) (string, error) {
	s, err := daemon.LoadConfig(a.config)
	if err != nil {
		return "", err
	}
	for i := range s.Servers {
		if s.Servers[i].Name != u.Name {
			continue
		}
		given := s.Servers[i].Shown()
		switch {
		case u.Type == "stdio" && len(given.Env) == 0:
			return "not at all: the configuration gives its process no env", nil
		case u.Type == "stdio":
			return "with the env that the configuration gives to its process: " + keys(given.Env), nil
		case len(given.Headers) == 0:
			return "not at all: the configuration gives no headers", nil
		}
		return "with the headers of the configuration: " + keys(given.Headers), nil
	}
	return "as the configuration of the running process says", nil
}

func keys(m map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

func (a *app) connection(u api.Upstream, how, output string) error {
	err := a.print(output, connection{u.Name, u.State, u.Reason, how}, func(w io.Writer) {
		columns(w, []string{"upstream", u.Name}, []string{"state", u.State}, []string{"signs in", how})
	})
	if err != nil {
		return err
	}
	switch u.State {
	case "ready", "degraded":
		return nil
	case "needs sign-in":
		return &api.Error{Kind: api.Unavailable, Message: fmt.Sprintf(
			"%s asks for credentials (%s), and signing in through a browser is not available yet in this build: give it a token in mcpServers.%s.headers (Authorization: \"Bearer ${TOKEN}\")", u.Name, u.Reason, u.Name)}
	}
	return &api.Error{Kind: api.Unavailable, Message: fmt.Sprintf("%s is %s: %s", u.Name, u.State, u.Reason)}
}
