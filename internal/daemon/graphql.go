package daemon

import (
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/graphql"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// OpenGraphQL implements config.GraphQLOpener.
func (o opener) OpenGraphQL(c *config.GraphQL) (tool.Caller, error) {
	return graphql.New(graphql.Config{
		Name: c.Name, URL: c.URL, Schema: c.Schema, Headers: c.Headers, Auth: web.Credential(c.Auth),
		Timeout: c.Timeout, Version: o.version, OnChange: web.Notify(o.changed), Log: o.log, Mask: o.mask,
		Masked: c.Personal, // by secrets, as long as they are in use
	})
}
