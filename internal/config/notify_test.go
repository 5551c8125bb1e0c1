package config_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestNotify reads channels, and refuses invalid ones.
func TestNotify(t *testing.T) {
	parse := func(text string) (*config.Config, error) {
		return config.Parse("/etc/b/biplane.yaml", []byte("notify: "+text), func(string) (string, bool) {
			return "from-a-variable-123", true
		}, tool.WASM)
	}
	c, err := parse(`{hook: {webhook: "https://h.example/x", secret: "${S}", kinds: [approval, breaker]},
		chat: {slack: "https://hooks.slack.com/services/T/B/x", per_minute: 5}, rooms: {teams: "https://t.example/x"},
		mail: {smtp: "mail.example.com:587", from: b@example.com, to: [ops@example.com], user: u, password: pw}}`)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	shown := c.Notify.ShowNotify()
	if len(shown) != 4 || shown["hook"] != "webhook https://h.example: approval, breaker" ||
		shown["chat"] != "slack https://hooks.slack.com" || shown["mail"] != "smtp mail.example.com:587" {
		t.Errorf("the channels are %v", shown)
	}
	if c.Notify.Routes[1].Rate != 5 || !strings.Contains(strings.Join(c.Notify.Secrets, " "), "/services/T/B/x") {
		t.Errorf("the routes are %+v, the secrets %q", c.Notify.Routes, c.Notify.Secrets)
	}
	for text, want := range map[string]string{
		`{a: {}}`: "exactly one of", `{a: {slack: "https://x", teams: "https://y"}}`: "exactly one of",
		`{a: {webhook: "https://x", secret: short}}`:                     "at least 16",
		`{a: {webhook: "https://x", secret: "whsec_???????????????"}}`:   "base64",
		`{a: {slack: "ftp://x"}}`:                                        "must be an address",
		`{a: {slack: "https://x", kinds: [other]}}`:                      "not one of approval",
		`{a: {smtp: mail, from: b@x.y, to: o@x.y}}`:                      "a server and a port",
		`{a: {smtp: "m:25", from: b@x.y}}`:                               "from and to",
		`{a: {smtp: "m:25", from: "b@x.y\r\nBcc: e@x.y", to: o@x.y}}`:    "must be an address like",
		`{a: {smtp: "m:25", from: b@x.y, to: o@x.y, tls: none}}`:         "only for a server on this machine",
		`{a: {smtp: "m:25", from: b@x.y, to: o@x.y, user: u}}`:           "both user and password",
		`{a: {slack: "https://x", per_minute: 0}}`:                       "per_minute",
		`{a: {slack: "https://x", unknown: 1}}`:                          "unknown",
		`{a: {smtp: "localhost:25", from: b@x.y, to: o@x.y, tls: none}}`: "",
	} {
		_, err := parse(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}
