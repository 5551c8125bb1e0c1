package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// navigate is a schema as zod 4 writes it for properties with defaults: they are required, although
// the server accepts calls without them.
const navigate = `{"type":"object","additionalProperties":false,"required":["url","fullPage","opts","steps"],"properties":{
	"url":{"type":"string"},"fullPage":{"type":"boolean","default":false},"opts":{"type":"object","default":{"x":1},"required":["x"],"properties":{"x":{"type":"integer","default":7},"y":{}}},
	"steps":{"type":"array","default":[],"items":{"type":"object","required":["ms"],"properties":{"ms":{"default":5}}}},"note":{"default":"not filled in"}}}`

func TestFill(t *testing.T) {
	e := entry(t, navigate)
	for _, c := range []struct{ args, want string }{
		{`{"url":"u"}`, `{"url":"u","fullPage":false,"opts":{"x":1},"steps":[]}`},
		{` { "url" : "u", "fullPage":true, "opts":{}, "steps":[ {"ms":1} , {} ] } `,
			` { "url" : "u", "fullPage":true, "opts":{"x":7}, "steps":[ {"ms":1} , {"ms":5} ] } `},
		{`{"url":"u","opts":{"y":12345678901234567890},"fullPage":false,"steps":[]}`,
			`{"url":"u","opts":{"y":12345678901234567890,"x":7},"fullPage":false,"steps":[]}`},
		{``, `{"fullPage":false,"opts":{"x":1},"steps":[]}`},
		{`{}`, `{"fullPage":false,"opts":{"x":1},"steps":[]}`},
		{`null`, `null`},
		{`[1]`, `[1]`},
		{`"url"`, `"url"`},
		{`{"url":`, `{"url":`},
		{`{"url":"u"`, `{"url":"u"`},
		{`{"opts":3,"steps":{},"fullPage":null}`, `{"opts":3,"steps":{},"fullPage":null}`},
	} {
		if got := string(e.Fill(json.RawMessage(c.args))); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.args, got, c.want)
		}
	}
	if err := e.Validate(e.Fill(json.RawMessage(`{"url":"u"}`))); err != nil {
		t.Errorf("Validate: %v", err)
	}
	if err := e.Validate(e.Fill(nil)); err == nil || !strings.Contains(err.Error(), "- url: missing") ||
		strings.Contains(err.Error(), "fullPage: missing") {
		t.Errorf("err = %v", err)
	}
	same := json.RawMessage(`{"owner":"a","repo":"b"}`)
	if got := entry(t, issues).Fill(same); &got[0] != &same[0] {
		t.Error("arguments were copied where there is nothing to fill in")
	}
}

func FuzzFill(f *testing.F) {
	e := entry(f, navigate)
	f.Add(`{"url":"u","opts":{},"steps":[{}]}`)
	f.Fuzz(func(t *testing.T, args string) {
		got := e.Fill(json.RawMessage(args))
		if json.Valid([]byte(args)) != json.Valid(got) && args != "" {
			t.Fatalf("%q became %q", args, got)
		}
	})
}

// TestSeveralWrongNames checks that the error for several wrong names lists the passed and the
// accepted arguments.
func TestSeveralWrongNames(t *testing.T) {
	e := entry(t, `{"type":"object","required":["owner","repo"],"properties":{"owner":{"type":"string"},`+
		`"repo":{"type":"string"},"state":{"enum":["open","closed"]}}}`)
	err := e.Validate(json.RawMessage(`{"organization":"a","project":"b"}`))
	if err == nil || !strings.HasSuffix(err.Error(), "\nyou gave organization, project; it takes { owner: string, "+
		"repo: string, state?: one of \"open\", \"closed\" }") {
		t.Errorf("err = %v", err)
	}
	if err := e.Validate(json.RawMessage(`{"owner":"a","project":"b"}`)); err == nil ||
		strings.Contains(err.Error(), "it takes {") {
		t.Errorf(`err = %v, want err != nil && !strings.Contains(err.Error(), "it takes {")`, err)
	}
	if got := e.ListArguments(); got != `{ owner: string, repo: string, state?: one of "open", "closed" }` {
		t.Errorf("got = %v, want got == `{ owner: string, repo: string, state?: one of \"open\", \"closed\" }`", got)
	}
}
