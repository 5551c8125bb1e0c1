package daemon_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// TestRequiredTool checks that a tool is denied to callers that may not use the tool which it
// requires by policy or by their key. Explanations and evidence agree with the calls.
func TestRequiredTool(t *testing.T) {
	t.Parallel()
	p := newTokenPeer(t, map[string]string{"k": "all"})
	dir := withPolicies(t, `@redact("secret") permit (principal, action, resource);
		@id("prompts") forbid (principal, action == Action::"call", resource == Tool::"peer.prompts.get");`)
	if err := os.WriteFile(filepath.Join(dir, "shop.graphql"), []byte("type Query { stock: Int }"), 0o600); err != nil {
		t.Fatalf("write the schema: %v", err)
	}
	d, _ := run(t, dir, "policy: ./policies\nauth: { keys: true }\n"+
		"mcpServers: { peer: { url: '"+p.URL+"', headers: { X-Key: k } } }\n"+
		"graphql: { shop: { url: '"+p.URL+"', schema: ./shop.graphql } }\n")
	for name, c := range map[string]struct {
		tools []string
		code  string
		want  string // the effect
	}{
		"lists":   {[]string{"peer.resources.list"}, "peer.resources.list", "deny"},
		"both":    {[]string{"peer.resources.list", "peer.resources.read"}, "peer.resources.list", "allow"},
		"reads":   {[]string{"peer.resources.read"}, "peer.resources.read", "allow"},
		"prompts": {nil, "peer.prompts.list", "deny"},
	} {
		key := makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"api"}, Tools: c.tools})
		arguments, result := "{}", `"allow"`
		if name == "reads" {
			arguments = `{uri: "own://notes"}`
		}
		if c.want == "deny" {
			result = `"denied"`
		}
		x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{Code: `return await callTool(["` + c.code +
			`"].join(), ` + arguments + `).then(() => "allow", (e) => e.kind)`})
		if err != nil || x.Error != nil || string(x.Value) != result {
			t.Errorf("%s calls %s: %s, error %+v, %v, want %s", name, c.code, x.Value, x.Error, err, result)
		}
		a, err := d.Client().Policies().Explain(t.Context(), api.PolicyQuestion{Tool: c.code,
			Principal: api.PolicyPrincipal{ID: "key:" + name}})
		if err != nil || a.Effect != c.want || a.Shown != (c.want == "allow") {
			t.Errorf("%s: the explanation of %s = %+v, %v, want %s", name, c.code, a, err, c.want)
		}
	}
	var out bytes.Buffer
	now := time.Now()
	if err := d.Client().Audit().WriteEvidence(t.Context(), now.Add(-time.Hour), now.Add(time.Hour), &out); err != nil {
		t.Fatalf("WriteEvidence: %v", err)
	}
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatalf("zip.NewReader: %v", err)
	}
	access, err := fs.ReadFile(z, "access.csv")
	if err != nil {
		t.Fatalf("access.csv: %v", err)
	}
	for _, want := range []string{"key:lists,peer.resources.list,deny,credential,",
		"key:both,peer.resources.list,allow,", "key:prompts,peer.prompts.list,deny,required,",
		"key:prompts,peer.prompts.get,deny,prompts,", "a call that renames fields is denied"} {
		if !strings.Contains(string(access), want) {
			t.Errorf("access.csv has no %q: %s", want, access)
		}
	}
}
