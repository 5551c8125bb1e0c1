package values

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestOf(t *testing.T) {
	for _, c := range []struct{ result, want string }{
		{`{"content":[]}`, `null`},
		{`{"content":[{"type":"text","text":"hello"}]}`, `"hello"`},
		{`{"content":[{"type":"text","text":" {\"id\": 9007199254740993} "}]}`, `{"id":9007199254740993}`},
		{`{"content":[{"type":"text","text":"{oops"}]}`, `"{oops"`},
		{`{"content":[{"type":"text","text":"a"},{"type":"text","text":"[1]"}]}`, `["a",[1]]`},
		{`{"content":[{"type":"text","text":"no"}],"structuredContent":{"a": 1.50}}`, `{"a":1.50}`},
		{`{"content":[{"type":"image","mimeType":"image/png","data":"aGk="}]}`,
			`{"type":"image","mimeType":"image/png","size":2,"handle":"res_1"}`},
		{`{"content":[{"type":"resource","resource":{"uri":"u:x","text":"abc"}}]}`,
			`{"type":"resource","uri":"u:x","size":3,"text":"abc","handle":"res_1"}`},
		{`{"content":[{"type":"image","data":"aGk="}],"structuredContent":{"content":1}}`,
			`{"content":1,"_content":[{"type":"image","size":2,"handle":"res_1"}]}`},
		{`{"content":[{"type":"resource_link", "uri":"u:x"}]}`, `{"type":"resource_link","uri":"u:x"}`},
	} {
		r, err := tool.ParseResult([]byte(c.result))
		if err != nil {
			t.Fatalf("tool.ParseResult: %v", err)
		}
		got, err := Of("", r, func(Block, json.RawMessage) string { return "res_1" })
		if err != nil || string(got) != c.want {
			t.Errorf("%s is %s, %v; want %s", c.result, got, err, c.want)
		}
		stands := strings.HasPrefix(c.want, `{"type":"image"`) || strings.HasPrefix(c.want, `{"type":"resource",`)
		if h := HandleOf(got); (h == "res_1") != stands {
			t.Errorf("%s has the handle %q", got, h)
		}
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct{ result, want string }{
		{`{"isError":true,"content":[{"type":"text","text":" no such row "},{"type":"text","text":"try 7"}]}`,
			"no such row\ntry 7"},
		{`{"isError":true,"content":[],"structuredContent":{"code":7}}`, `{"code":7}`},
		{`{"isError":true,"content":[]}`, "the tool reported a failure without a message"},
	} {
		r, err := tool.ParseResult([]byte(c.result))
		if err != nil {
			t.Fatalf("tool.ParseResult: %v", err)
		}
		if got := ErrorText(r); got != c.want {
			t.Errorf("%s says %q, want %q", c.result, got, c.want)
		}
	}
}

func TestOutline(t *testing.T) {
	for _, c := range []struct{ value, shape, limit string }{
		{`{"a":1,"b":[{"c":null},{"c":true}]}`, `{a: number, b: array of 2 {c: boolean} | {c: null}}`, "20000"},
		{`[` + strings.Repeat(`"x",`, 1233) + `"x"]`, "array of 1,234 string", "50"},
		{`"` + strings.Repeat("ä", 600) + `"`, "string (600 characters)", "20000"},
		{`{"a":{"b":{"c":{"d":{}}}}}`, "{a: {b: {c: {d: {…}}}}}", "20000"},
		{`[]`, "[]", "50"},
	} {
		shape, limit := Outline(json.RawMessage(c.value))
		if shape != c.shape || limit != c.limit {
			t.Errorf("%.40s: %s, %s; want %s, %s", c.value, shape, limit, c.shape, c.limit)
		}
	}
}

func TestPartsOfValues(t *testing.T) {
	for _, c := range []struct {
		offset, limit int
		part, runes   string
	}{{0, -1, `[1,"b",[3]]`, "aäb"}, {1, 1, `["b"]`, "ä"}, {2, 9, `[[3]]`, "b"}, {7, 1, `[]`, ""}, {0, 0, `[]`, ""}} {
		if got := string(Part(json.RawMessage(`[1,"b",[3]]`), c.offset, c.limit)); got != c.part {
			t.Errorf("%d, %d: %s, want %s", c.offset, c.limit, got, c.part)
		}
		if got := Runes("aäb", c.offset, c.limit); got != c.runes {
			t.Errorf("%d, %d: %s, want %s", c.offset, c.limit, got, c.runes)
		}
	}
	if got := text.Cut("aä", 2); got != "a…" {
		t.Errorf("cut to %q", got)
	}
}

// TestErrorData checks that large and deep content of errors is reduced to the fields that say what
// to do.
func TestErrorData(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for _, c := range []struct{ structured, want string }{
		{`{"status":404,"body":{"a":"[[[\"{"}}`, `{"status":404,"body":{"a":"[[[\"{"}}`},
		{`{"status":429,"retryable":true,"retry_after":7,"body":"` + strings.Repeat("x", 20_000) + `"}`,
			`{"status":429,"retryable":true,"retry_after":7}`},
		{`{"status":500,"retryable":false,"body":` + deep + `}`, `{"status":500,"retryable":false}`},
		{`{"status":[],"body":` + deep + `}`, `{}`},
	} {
		r, err := tool.ParseResult([]byte(`{"isError":true,"content":[],"structuredContent":` + c.structured + `}`))
		if err != nil {
			t.Fatalf("tool.ParseResult: %v", err)
		}
		if got := string(ErrorData(r)); got != c.want {
			t.Errorf("%.60s has the data %.100s, want %s", c.structured, got, c.want)
		}
	}
	if got := ErrorData(&tool.Result{IsError: true}); got != nil {
		t.Errorf("without structured content: %s, want nothing", got)
	}
}
