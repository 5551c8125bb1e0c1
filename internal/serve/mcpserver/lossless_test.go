package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// jsonText generates the text of a JSON value with properties that are easily lost. Examples are
// integers over 2^53, unusual spellings of numbers, escapes, characters that HTML would escape,
// unordered and duplicate keys, and white space.
func jsonText(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\t "}).Draw(t, "space")
	kinds := 6
	if depth <= 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return space + jsonString(t) + space
	case 1:
		return space + rapid.SampledFrom([]string{
			"0", "-0", "9007199254740993", "-9223372036854775809", "123456789012345678901234567890", "1.10", "1e400",
			"2E+05", "0.1000000000000000055511151231257827",
		}).Draw(t, "number") + space
	case 2:
		return fmt.Sprint(rapid.Int64().Draw(t, "integer"))
	case 3:
		return space + rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
	case 4:
		items := make([]string, rapid.IntRange(0, 4).Draw(t, "items"))
		for i := range items {
			items[i] = jsonText(t, depth-1)
		}
		return "[" + space + strings.Join(items, ",") + "]"
	}
	return object(t, depth, rapid.IntRange(0, 4).Draw(t, "members"))
}

func jsonString(t *rapid.T) string {
	var b strings.Builder
	b.WriteByte('"')
	for range rapid.IntRange(0, 8).Draw(t, "length") {
		b.WriteString(rapid.SampledFrom([]string{
			"a", "Z", "name", "é", "工", "🙂", `\u00e9`, `\u2028`, "\u2028", `\ud800`, `\/`, "/", `\"`, `\\`, `\n`,
			"<b>&amp;</b>", `\u003c`, " ", ":", "{", "]", ",", "\x7f",
		}).Draw(t, "part"))
	}
	b.WriteByte('"')
	return b.String()
}

// object generates an object of n members in addition to those given.
func object(t *rapid.T, depth, n int, given ...string) string {
	for range n {
		// A prefix prevents collisions with keys that have a meaning in the protocol.
		key := `"x` + jsonString(t)[1:]
		at := rapid.IntRange(0, len(given)).Draw(t, "at")
		given = append(given[:at], append([]string{key + ":" + jsonText(t, depth-1)}, given[at:]...)...)
	}
	return "{" + strings.Join(given, " , ") + "}"
}

// drawResult generates a tool's result.
func drawResult(t *rapid.T) string {
	members := []string{`"content":[` + object(t, 2, 2, `"type":"text"`, `"text":`+jsonString(t)) + `,` +
		object(t, 2, 2, `"type":"x-hologram"`) + `]`}
	if rapid.Bool().Draw(t, "structured") {
		members = append(members, `"structuredContent":`+jsonText(t, 3))
	}
	if rapid.Bool().Draw(t, "isError") {
		members = append(members, `"isError":true`)
	}
	if rapid.Bool().Draw(t, "meta") {
		members = append(members, `"_meta":`+object(t, 2, 2))
	}
	if rapid.Bool().Draw(t, "resultType") {
		members = append(members, `"resultType":"complete"`)
	}
	return object(t, 3, 3, members...)
}

// withoutAdded removes from a 2026-07-28 result the members that the server may have added to raw.
func withoutAdded(t testing.TB, got, raw string) string {
	const kind = `"resultType":"complete"`
	info := `"io.modelcontextprotocol/serverInfo":{"name":"biplane","title":"Biplane","version":"1.2.3"}`
	if fieldOf(t, raw, "resultType") == nil {
		got = strings.Replace(got, "{"+kind+",", "{", 1)
	}
	if fieldOf(t, raw, "_meta") == nil {
		return strings.Replace(got, `{"_meta":{`+info+`},`, "{", 1)
	}
	got = strings.Replace(got, `"_meta":{`+info+`,`, `"_meta":{`, 1)
	return strings.Replace(got, `"_meta":{`+info+`}`, `"_meta":{}`, 1)
}

func TestLosslessCalls(t *testing.T) {
	var raw, args string
	d := newDoor()
	var gotArgs []byte
	d.handle("up.echo", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		gotArgs = bytes.Clone(c.Arguments)
		return tool.ParseResult(json.RawMessage(raw))
	})
	peers(t, config(d, mcpserver.Direct), func(t *testing.T, p peer, version string) {
		rapid.Check(t, func(rt *rapid.T) {
			raw, args = drawResult(rt), object(rt, 3, 4)
			res, _ := p.call(t, "tools/call", `{"name":"up_echo","arguments":`+args+`}`)
			if string(gotArgs) != args {
				rt.Fatalf("arguments:\nsent %s\ngot  %s", args, gotArgs)
			}
			got := string(fieldOf(t, res, "result"))
			if version >= "2026" {
				got = withoutAdded(t, got, raw)
			}
			if want := compact(t, []byte(raw)); got != want {
				rt.Fatalf("result:\nsent %s\ngot  %s", want, got)
			}
		})
	})
}

func TestLosslessDefinitions(t *testing.T) {
	var raw string
	cfg := config(newDoor(), mcpserver.Direct)
	cfg.Catalog = upstreams{list: func() []mcpserver.Listed {
		return []mcpserver.Listed{{Name: "up_<a>",
			Tool: &tool.Tool{Upstream: "up", Name: "a", Raw: json.RawMessage(raw),
				InputSchema: json.RawMessage(`{"type":"object"}`)}}}
	}}
	peers(t, cfg, func(t *testing.T, p peer, version string) {
		rapid.Check(t, func(rt *rapid.T) {
			raw = object(rt, 3, 4, `"name" : "a"`, `"description":`+jsonString(rt),
				`"inputSchema":{"type":"object","x":`+jsonText(rt, 2)+`}`)
			res, _ := p.call(t, "tools/list", "")
			got := strings.Trim(string(fieldOf(t, res, "result", "tools")), "[]")
			if version == "2025-11-25" {
				got = withoutTasks(got)
			}
			want := compact(t, []byte(strings.Replace(raw, `"name" : "a"`, `"name" : "up_<a>"`, 1)))
			if got = "{" + strings.Trim(got, "{}") + "}"; got != "{"+strings.Trim(want, "{}")+"}" {
				rt.Fatalf("definition:\nwant %s\ngot  %s", want, got)
			}
		})
	})
}
