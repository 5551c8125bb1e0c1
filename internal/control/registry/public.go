package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/biplane-dev/biplane/internal/tool"
)

// PublicAddress is the public MCP registry.
const PublicAddress = "https://registry.modelcontextprotocol.io"

const (
	maxAnswer = 8 << 20 // bytes
	maxFound  = 100
)

// A Registry is a server with the API of the public MCP registry, version 0.1.
type Registry struct{ base *url.URL }

// NewRegistry returns the registry at an address.
func NewRegistry(address string) (*Registry, error) {
	u, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return &Registry{u}, nil
}

// A wireServer is a server in answers of the API.
type wireServer struct {
	Server json.RawMessage `json:"server"`
	Meta   struct {
		Official struct {
			Status string `json:"status"`
		} `json:"io.modelcontextprotocol.registry/official"`
	} `json:"_meta"`
}

// FetchServer returns the server with a name, in a version or, if that is empty, the latest one.
func (r *Registry) FetchServer(ctx context.Context, name, version string) (*Server, error) {
	if !serverNames.Get().MatchString(name) {
		return nil, tool.Errorf(tool.Invalid, "%q is not the name of a server in a registry: they are like "+
			"io.github.user/weather; `biplane registry search` finds them", cleanText(name, 100))
	}
	if version == "" {
		version = "latest"
	}
	raw, err := r.fetchPath(ctx, "/v0.1/servers/"+url.PathEscape(name)+"/versions/"+url.PathEscape(version), nil)
	if errors.Is(err, errMissing) {
		return nil, tool.Errorf(tool.NotFound, "%s has no server %s in version %s", ShowPlace(r.base.String()), name,
			cleanText(version, 60))
	} else if err != nil {
		return nil, err
	}
	var w wireServer
	if err := json.Unmarshal(raw, &w); err != nil || len(w.Server) == 0 {
		return nil, tool.Errorf(tool.Unavailable, "%s answered with something else than a server",
			ShowPlace(r.base.String()))
	}
	s, err := ParseServer(w.Server)
	switch {
	case err != nil:
		return nil, tool.Errorf(tool.Invalid, "%s: %w", ShowPlace(r.base.String()), err)
	case s.Name != name:
		return nil, tool.Errorf(tool.Denied, "%s answered with the server %s instead of %s",
			ShowPlace(r.base.String()), s.Name, name)
	case w.Meta.Official.Status == "deleted":
		return nil, tool.Errorf(tool.Denied, "%s was deleted from %s", name, ShowPlace(r.base.String()))
	}
	return s, nil
}

// SearchServers returns the latest versions of servers whose names have a text in them. Malformed
// ones are left out.
func (r *Registry) SearchServers(ctx context.Context, text string) ([]*Server, error) {
	raw, err := r.fetchPath(ctx, "/v0.1/servers", url.Values{"search": {text}, "version": {"latest"},
		"limit": {fmt.Sprint(maxFound)}})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Servers []wireServer `json:"servers"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "%s answered with something else than a list of servers",
			ShowPlace(r.base.String()))
	}
	out := []*Server{}
	for _, w := range answer.Servers[:min(len(answer.Servers), maxFound)] {
		if s, err := ParseServer(w.Server); err == nil && w.Meta.Official.Status != "deleted" {
			out = append(out, s)
		}
	}
	return out, nil
}

func (r *Registry) fetchPath(ctx context.Context, path string, query url.Values) ([]byte, error) {
	u, err := url.Parse(r.base.JoinPath("/").String() + path[1:])
	if err != nil {
		return nil, err
	}
	u.RawQuery = query.Encode()
	raw, err := newFetcher(r.base).fetchText(ctx, u, maxAnswer)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "%s: %w", ShowPlace(r.base.String()), err)
	}
	return raw, nil
}
