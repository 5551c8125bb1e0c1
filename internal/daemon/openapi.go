package daemon

import (
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/openapi"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// OpenOpenAPI implements config.OpenAPIOpener.
func (o opener) OpenOpenAPI(c *config.OpenAPI) (tool.Caller, error) {
	auth := map[string]openapi.Credential{}
	for name, a := range c.Auth {
		auth[name] = openapi.Credential(a)
	}
	return openapi.New(openapi.Config{
		Name: c.Name, Spec: c.Spec, Server: c.Server, Variables: c.Variables, Headers: c.Headers, Auth: auth,
		Timeout: c.Timeout, Version: o.version, OnChange: web.Notify(o.changed), Log: o.log, Mask: o.mask,
		Masked: c.Personal, // by secrets, as long as they are in use
	})
}
