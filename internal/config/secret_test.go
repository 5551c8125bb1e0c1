package config_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
)

const secretConfig = `
secrets:
  - folder
  - env
  - file: keys.yaml
  - vault: { address: "https://v.example", path: /secret/a/b, token: "${TOKEN}", timeout: 3s }
mcpServers:
  files:
    command: node
    args: ["--key=${secret:A}"]
    env: { K: "x ${secret:B-2} y", T: "${TOKEN}", L: "$${secret:A}" }
  web: { url: "https://user:${secret:A}@h/${secret:A}?k=${secret:C}", headers: { Authorization: "Bearer ${secret:C}" } }
openapi:
  pets: { spec: pets.yaml, auth: { key: "${secret:A}" } }
  plain: { spec: pets.yaml }
graphql:
  shop:
    url: "https://shop.example/graphql"
    auth: { client_id: a, client_secret: "${secret:D}", token_url: "https://l" }
folders:
  local: { path: tools, env: { K: "${secret:A}" } }
`

func TestSecrets(t *testing.T) {
	c, err := parseFile("/etc/b/biplane.yaml", secretConfig)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	want := []config.SecretSource{{Kind: "folder"}, {Kind: "env"}, {Kind: "file", Path: "/etc/b/keys.yaml"},
		{Kind: "vault", Vault: config.Vault{Address: "https://v.example", Path: "secret/a/b", Token: "s3cret",
			Timeout: 3 * time.Second}}}
	if !slices.Equal(c.Secrets.Sources, want) {
		t.Errorf("sources: %+v, want %+v", c.Secrets.Sources, want)
	}
	uses := map[string][]string{"A": {"files", "web", "local", "pets"}, "B-2": {"files"}, "C": {"web"}, "D": {"shop"}}
	got := c.SecretUses(false)
	for _, names := range got {
		slices.Sort(names)
	}
	for _, names := range uses {
		slices.Sort(names)
	}
	if !maps.EqualFunc(got, uses, slices.Equal) {
		t.Errorf("uses: %v, want %v", got, uses)
	}
	values := map[string]string{"A": "value-a", "B-2": "value-b", "C": "value-c", "D": "value-d"}
	files, err := c.ReadServer("files", values)
	if err != nil || files.Args[0] != "--key=value-a" ||
		!maps.Equal(files.Env, map[string]string{"K": "x value-b y", "T": "s3cret", "L": "${secret:A}"}) {
		t.Errorf("files: %+v, %v", files, err)
	}
	web, err := c.ReadServer("web", values)
	if err != nil || web.URL != "https://user:value-a@h/value-a?k=value-c" ||
		web.Headers["Authorization"] != "Bearer value-c" {
		t.Errorf("web: %+v, %v", web, err)
	}
	pets, err := c.ReadAPI("openapi", "pets", values)
	if err != nil || pets.(*config.OpenAPI).Auth["key"].Value != "value-a" {
		t.Errorf("pets: %+v, %v", pets, err)
	}
	shop, err := c.ReadAPI("graphql", "shop", values)
	if err != nil || shop.(*config.GraphQL).Auth.ClientSecret != "value-d" {
		t.Errorf("shop: %+v, %v", shop, err)
	}
	local, err := c.ReadAPI("folders", "local", values)
	if err != nil || local.(*config.Folder).Env["K"] != "value-a" || local.(*config.Folder).Path != "/etc/b/tools" {
		t.Errorf("local: %+v, %v", local, err)
	}
	for _, a := range c.APIs {
		if s := a.GetSource(); s.Name == "plain" && s.Secrets != nil {
			t.Errorf("plain refers to %v, want no secrets", s.Secrets)
		}
	}
	// what is shown has references instead of values, also after they were read
	for _, v := range []any{c.Shown(""), files.Shown(), web.Shown(), pets.ShowEntry(), shop.ShowEntry(),
		local.ShowEntry()} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		if strings.Contains(string(text), "value-") || strings.Contains(string(text), "$secret.") {
			t.Errorf("shown: %s, want no values and no placeholders", text)
		}
	}
}

// A value that makes an entry invalid is an error of that entry.
func TestInvalidSecretValue(t *testing.T) {
	c, err := parseFile("/etc/b/biplane.yaml", secretConfig)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	_, err = c.ReadServer("web", map[string]string{"A": "value-a", "C": "a\nb"})
	if e := tool.AsError(err); e == nil || e.Kind != tool.Invalid ||
		!strings.Contains(e.Msg, `mcpServers.web is invalid with the values of its secrets`) ||
		strings.Contains(e.Msg, "a\nb") {
		t.Errorf("got %v, want an error without the value", err)
	}
}

func TestSecretProblems(t *testing.T) {
	vault := func(settings string) string { return "secrets: [{ vault: { " + settings + " } }]" }
	const meaningless = "has no meaning here: entries of upstreams can refer to secrets; write ${NAME}"
	for _, c := range [][2]string{
		{"secrets: folder", "secrets must be a list of sources, such as [folder, env], not text"},
		{"secrets: [cellar]", `secrets[0] is one of folder, env, keyring, not "cellar"`},
		{"secrets: [{ file: a, vault: {} }]", "secrets[0] must have one key, file or vault"},
		{vault("address: 'http://v.example', path: a/b, token: x"), "must be https, unless it is on this machine"},
		{vault("address: 'https://v.example', path: a, token: x"), "path must be a mount and the path"},
		{vault("address: 'https://v.example', path: a/../x, token: x"), "path must be a mount and the path"},
		{vault("path: a/b"), "needs an address, a path and a token"},
		{vault("address: 'https://v.example', path: a/b, token: '${secret:A}'"), meaningless},
		{"listen: '${secret:A}'", meaningless},
		{"mcpServers: { a: { command: x } }\npolicy: '${secret:A}'", meaningless},
		{"mcpServers: { a: { command: '${secret:a b}' } }", "can't be a secret's name"},
		{"mcpServers: { a: { command: '${secret:A:-default}' } }", "can't be a secret's name"},
	} {
		text, want := c[0], c[1]
		if _, err := parseFile("/etc/b/biplane.yaml", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
