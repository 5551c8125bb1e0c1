package registry

import (
	"reflect"
	"strings"
	"testing"
)

// TestConfigure checks the entries that descriptions become. Texts of a description never refer to
// variables or secrets.
func TestConfigure(t *testing.T) {
	s, err := ParseServer([]byte(`{"name": "com.example/mcp", "packages": [
		{"registryType": "mcpb", "identifier": "https://x/y.mcpb"},
		{"registryType": "npm", "identifier": "@example/mcp", "version": "1.0.0", "transport": {"type": "stdio"},
		 "runtimeArguments": [{"type": "positional", "value": "-y"}],
		 "packageArguments": [{"type": "named", "name": "--level", "default": "info"}, {"type": "named",
			"name": "--dry",
			"format": "boolean", "value": "true"}, {"type": "positional", "valueHint": "folder", "isRequired": true}],
		 "environmentVariables": [{"name": "API_KEY", "isRequired": true}, {"name": "EXTRA_TOKEN", "isSecret": true},
			{"name": "URL", "value": "https://{host}/${HOME}", "variables": {"host": {"default": "$x"}}}]},
		{"registryType": "oci", "identifier": "example/mcp", "version": "2.1", "environmentVariables":
			[{"name": "TOKEN", "isSecret": true, "isRequired": true}]},
		{"registryType": "pypi", "identifier": "example-mcp", "version": "0.1"}],
		"remotes": [{"type": "sse", "url": "https://example.com/{room}/sse",
			"variables": {"room": {"isRequired": true}},
			"headers": [{"name": "Authorization", "value": "Bearer {token}",
				"variables": {"token": {"isSecret": true}}}]}]}`))
	if err != nil {
		t.Fatalf("ParseServer: %v", err)
	}
	for _, c := range []struct {
		choice Choice
		want   Definition
	}{
		{Choice{Values: map[string]string{"folder": "/a ${b}"}}, Definition{Command: "npx",
			Args: []string{"-y", "@example/mcp@1.0.0", "--level=info", "--dry", "/a $${b}"},
			Env:  map[string]string{"API_KEY": "${secret:EXAMPLE_API_KEY}", "URL": "https://$x/$${HOME}"}}},
		{Choice{Values: map[string]string{"folder": "f", "--level": "debug"}, Secrets: []string{"EXTRA_TOKEN"}},
			Definition{Command: "npx", Args: []string{"-y", "@example/mcp@1.0.0", "--level=debug", "--dry", "f"},
				Env: map[string]string{"API_KEY": "${secret:EXAMPLE_API_KEY}", "URL": "https://$x/$${HOME}",
					"EXTRA_TOKEN": "${secret:EXTRA_TOKEN}"}}},
		{Choice{Use: "oci"}, Definition{Command: "docker", Args: []string{"run", "-i", "--rm", "-e", "TOKEN",
			"example/mcp:2.1"},
			Env: map[string]string{"TOKEN": "${secret:EXAMPLE_TOKEN}"}}},
		{Choice{Use: "pypi"}, Definition{Command: "uvx", Args: []string{"example-mcp==0.1"}, Env: map[string]string{}}},
		{Choice{Use: "remote", Values: map[string]string{"room": "r1"}}, Definition{Type: "sse",
			URL:     "https://example.com/r1/sse",
			Headers: map[string]string{"Authorization": "Bearer ${secret:EXAMPLE_TOKEN}"}}},
	} {
		got, err := s.ConfigureServer(c.choice)
		if err != nil {
			t.Errorf("%+v: %v", c.choice, err)
			continue
		}
		if len(got.Secrets) == 0 && c.choice.Use != "pypi" {
			t.Errorf("%+v: no secrets are named", c.choice)
		}
		got.Secrets, got.Optional = nil, nil
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%+v:\ngot  %+v\nwant %+v", c.choice, *got, c.want)
		}
	}
	for _, c := range []struct {
		choice Choice
		want   string
	}{
		{Choice{}, "--set folder="},
		{Choice{Use: "nuget"}, "none of the kind nuget"},
		{Choice{Use: "mcpb"}, "not supported"},
		{Choice{Values: map[string]string{"folder": "f", "other": "x"}}, "no value named other"},
		{Choice{Values: map[string]string{"folder": "f", "API_KEY": "k"}}, "don't pass it on the command line"},
		{Choice{Use: "remote", Values: map[string]string{"room": "r", "token": "t"}}, "don't pass it"},
		{Choice{Values: map[string]string{"folder": "ghp_abcdefghijklmnopqrstuvwxyz0123456789"}},
			"looks like a secret"},
	} {
		if _, err := s.ConfigureServer(c.choice); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.choice, err, c.want)
		}
	}
}

// TestHostileServers checks descriptions that try to run something else, or to reach secrets.
func TestHostileServers(t *testing.T) {
	npm := func(more string) string {
		return `{"name": "a/b", "packages": [{"registryType": "npm", "identifier": "p", "version": "1.0.0"` + more +
			`}]}`
	}
	remote := func(url, more string) string {
		return `{"name": "a/b", "remotes": [{"type": "streamable-http", "url": "` + url + `"` + more + `}]}`
	}
	for _, c := range []struct{ text, want string }{
		{npm(`, "identifier": "--registry=https://evil"`),
			"invalid name of a package"},
		{npm(`, "identifier": "p\u001b[2J"`),
			"invalid name of a package"},
		{npm(`, "identifier": "../p"`),
			"invalid name of a package"},
		{npm(`, "identifier": "p;rm -rf"`),
			"invalid name of a package"},
		{npm(`, "version": "latest"`),
			"invalid version"},
		{npm(`, "version": "^1.0.0"`),
			"invalid version"},
		{npm(`, "version": "npm:evil"`),
			"invalid version"},
		{npm(`, "version": ""`),
			"states no version"},
		{npm(`, "registryBaseUrl": "https://evil.example"`),
			"registry https://evil.example"},
		{npm(`, "runtimeHint": "node"`),
			`runner "node"`},
		{npm(`, "runtimeArguments": [{"type": "named", "name": "--registry", "value": "x"}]`),
			"--registry=x"},
		{npm(`, "runtimeArguments": [{"type": "positional", "value": "evil"}]`),
			"argument evil"},
		{npm(`, "runtimeArguments": [{"type": "shell", "value": "evil"}]`),
			"invalid type of an argument"},
		{npm(`, "packageArguments": [{"type": "named", "name": "--a b", "value": "evil"}]`),
			"invalid name of an argument"},
		{npm(`, "packageArguments": [{"type": "positional", "value": "a\nb"}]`),
			"control characters"},
		{npm(`, "environmentVariables": [{"name": "NODE_OPTIONS", "value": "--require=/x"}]`),
			"environment variable NODE_OPTIONS"},
		{npm(`, "environmentVariables": [{"name": "LD_PRELOAD", "default": "/x"}]`),
			"environment variable LD_PRELOAD"},
		{npm(`, "environmentVariables": [{"name": "A=B"}]`),
			"invalid name of an environment"},
		{npm(`, "environmentVariables": [{"name": "K", "value": "v", "isSecret": true}]`),
			"known to everyone"},
		{npm(`, "environmentVariables": [{"name": "K", "value": "${x}", "variables": {"x": {"default": "{HOME}"}}}]`),
			"dollar sign"},
		{npm(`, "environmentVariables": [{"name": "K", "value": "{x}{HOME}", "variables": {"x": {"default": "$"}}}]`),
			"dollar sign"},
		{remote("http://evil.example/mcp", ""),
			"begins with https"},
		{remote("file:///etc/passwd", ""),
			"begins with https"},
		{remote("https://user:pw@example.com/mcp", ""),
			"user name"},
		{remote("https://example.com{x}/mcp", `, "variables": {"x": {"default": "@evil.example"}}`),
			"user name"},
		{remote("https://example.com/", `, "headers": [{"name": "A: b\r\nC", "value": "x"}]`),
			"invalid name of a header"},
		{remote("https://example.com/", `, "headers": [{"name": "A", "value": "x\r\nC: d"}]`),
			"control characters"},
		{`{"name": "x\u202e/y"}`,
			"invalid name"},
		{`{"name": "a/b", "packages": [{"registryType": "oci", "identifier": "--privileged", "version": "1"}]}`,
			"invalid name of a package"},
		{`{"name": "a/b", "packages": [{"registryType": "oci", "identifier": "x", "version": "1", "runtimeArguments":
			[{"type": "named", "name": "-v", "value": "/:/host"}]}]}`, "argument -v"},
		{`{"name": "a/b"}`,
			"no package or remote"},
	} {
		text, want := c.text, c.want
		s, err := ParseServer([]byte(text))
		if err == nil {
			_, err = s.ConfigureServer(Choice{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		} else if strings.ContainsAny(err.Error(), "\x1b\u202e") {
			t.Errorf("%s: the error has hidden characters: %q", text, err)
		}
	}
	if _, err := ParseServer([]byte(npm(strings.Repeat(" ", maxServer)))); err == nil {
		t.Error("a description of more than the maximum size was accepted")
	}
	// What environments refer to stays text.
	s, err := ParseServer([]byte(remote("https://example.com/", `, "headers": [{"name": "X", "value": "${AWS_SECRET}"},
		{"name": "Y", "default": "${secret:GITHUB_TOKEN}"}]`)))
	if err != nil {
		t.Fatalf("ParseServer: %v", err)
	}
	d, err := s.ConfigureServer(Choice{})
	if err != nil || d.Headers["X"] != "$${AWS_SECRET}" || d.Headers["Y"] != "$${secret:GITHUB_TOKEN}" {
		t.Errorf("got %+v, %v, want escaped references", d, err)
	}
}
