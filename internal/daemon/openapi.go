package daemon

import (
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/openapi"
)

// openOpenAPI returns the upstream of an HTTP API with an OpenAPI document.
func openOpenAPI(c *config.OpenAPI, u *upstreams, changed func()) (upstream.Upstream, error) {
	auth := map[string]openapi.Credential{}
	for name, a := range c.Auth {
		auth[name] = openapi.Credential(a)
	}
	return openapi.New(openapi.Config{
		Name: c.Name, Spec: c.Spec, Server: c.Server, Variables: c.Variables, Headers: c.Headers, Auth: auth,
		Timeout: c.Timeout, Version: u.version, OnChange: changed, Log: u.log, Mask: u.mask,
		Masked: c.Personal, // by secrets, as long as they are in use
	})
}
