package daemon

import (
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/openapi"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// OpenOpenAPI implements config.OpenAPIOpener.
func (o opener) OpenOpenAPI(c *config.OpenAPI) (tool.Caller, error) {
	credentials := map[string]openapi.Credential{}
	for name, a := range c.Auth {
		credentials[name] = openapi.Credential(a)
	}
	cfg := openapi.Config{
		Name: c.Name, Spec: c.Spec, Server: c.Server, Variables: c.Variables, Headers: c.Headers, Auth: credentials,
		Timeout: c.Timeout, Version: o.version, OnChange: web.Notify(o.changed), Log: o.log, Mask: o.mask,
		Masked: c.Personal, // by secrets, as long as they are in use
	}
	if o.auth != nil {
		cfg.SignIn = o.auth
		if c.Personal {
			cfg.Advice = "sign in again: `biplane connect " + c.Name + "`"
		}
	}
	return openapi.New(cfg)
}
