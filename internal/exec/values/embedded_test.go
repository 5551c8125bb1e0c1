package values_test

import (
	"encoding/json"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestWithHandles(t *testing.T) {
	const text = `{"z":1,"contents":[{"uri":"x://t","text":"t"}],"size":9007199254740993}`
	for name, c := range map[string]struct{ method, in, want, kept string }{
		"blob": {tool.ReadResource, `{"contents":[{"uri":"x://b","mimeType":"application/zip","blob":"AAEC"}]}`,
			`{"contents":[{"type":"resource","uri":"x://b","mimeType":"application/zip","size":3,"handle":"res_1"}]}`,
			`{"type":"resource","resource":{"uri":"x://b","mimeType":"application/zip","blob":"AAEC"}}`},
		"image": {tool.ReadResource, `{"contents":[{"uri":"x://i","mimeType":"image/png","blob":"AAEC"}]}`,
			`{"contents":[{"type":"image","uri":"x://i","mimeType":"image/png","size":3,"handle":"res_1"}]}`,
			`{"type":"image","data":"AAEC","mimeType":"image/png"}`},
		"text": {tool.ReadResource, text,
			`{"contents":[{"uri":"x://t","text":"t"}],"size":9007199254740993,"z":1}`, ""},
		"prompt": {tool.GetPrompt, `{"messages":[{"role":"user","content":{"type":"text","text":"t"}},` +
			`{"role":"user","content":{"type":"audio","data":"AAEC","mimeType":"audio/wav"}}]}`,
			`{"messages":[{"role":"user","content":{"type":"text","text":"t"}},{"content":{"type":"audio",` +
				`"mimeType":"audio/wav","size":3,"handle":"res_1"},"role":"user"}]}`,
			`{"type":"audio","data":"AAEC","mimeType":"audio/wav"}`},
		"other method": {tool.ListPrompts, text, text, ""},
		"odd":          {tool.GetPrompt, `{"messages":[1,{"content":[]}]}`, `{"messages":[1,{"content":[]}]}`, ""},
		"no list":      {tool.ReadResource, `{"contents":{}}`, `{"contents":{}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kept := ""
			keep := func(_ values.Block, raw json.RawMessage) string {
				kept = string(raw)
				return "res_1"
			}
			got, err := values.WithHandles(c.method, json.RawMessage(c.in), keep)
			if err != nil || string(got) != c.want || kept != c.kept {
				t.Errorf("got %s and kept %s, %v; want %s and %s", got, kept, err, c.want, c.kept)
			}
		})
	}
}
