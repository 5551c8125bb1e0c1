package daemon

import (
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/graphql"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// openGraphQL returns the upstream of a GraphQL endpoint.
func openGraphQL(c *config.GraphQL, u *upstreams, changed func()) (upstream.Upstream, error) {
	return graphql.New(graphql.Config{
		Name: c.Name, URL: c.URL, Schema: c.Schema, Headers: c.Headers, Auth: web.Credential(c.Auth),
		Timeout: c.Timeout, Version: u.version, OnChange: changed, Log: u.log, Mask: u.mask,
		Masked: c.Personal, // by secrets, as long as they are in use
	})
}
