package daemon

import (
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/openapi"
)

// addAPIs adds the HTTP APIs with an OpenAPI document.
func addAPIs(s *config.Config, u *upstreams) error {
	for i := range s.OpenAPI {
		c := &s.OpenAPI[i]
		if c.Disabled {
			continue
		}
		auth := map[string]openapi.Credential{}
		for name, a := range c.Auth {
			auth[name] = openapi.Credential(a)
		}
		how := "not at all: the configuration has neither auth nor headers for it"
		if names := append(slices.Sorted(maps.Keys(c.Auth)), slices.Sorted(maps.Keys(c.Headers))...); len(names) > 0 {
			how = "with the auth and headers of the configuration: " + strings.Join(names, ", ")
		}
		err := u.add(&source{kind: "openapi", target: c.Shown().Spec, how: how, narrow: c.Narrow}, c.Name,
			func(changed func()) (upstream.Upstream, error) {
				return openapi.New(openapi.Config{
					Name: c.Name, Spec: c.Spec, Server: c.Server, Variables: c.Variables, Headers: c.Headers,
					Auth:    auth,
					Timeout: c.Timeout, Version: u.version, OnChange: changed, Log: u.log, Mask: u.mask,
				})
			})
		if err != nil {
			return err
		}
	}
	return nil
}
