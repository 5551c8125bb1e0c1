package values

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// FuzzResult maps any tool result. The output must be one line of JSON.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"{\"a\":1}"}]}`))
	f.Add([]byte("{\"content\":[{\"type\":\"image\",\"data\":\"aa\"},\n{\"type\":\"x\"}],\"structuredContent\":{ " +
		"\"content\":\n1}}"))
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"uri":"x","text":""}}],"structuredContent":[1e400,` +
		`12345678901234567890]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := tool.ParseResult(raw)
		if err != nil {
			return
		}
		_ = ErrorText(r)
		v, err := Of("", r, func(Block, json.RawMessage) string { return "res_1" })
		if err == nil && (!json.Valid(v) || bytes.ContainsRune(v, '\n')) {
			t.Errorf("%s gives %s", raw, v)
		}
	})
}
