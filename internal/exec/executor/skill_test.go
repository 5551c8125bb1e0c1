package executor_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

const retrySkill = `/**
 * Calls f again when it fails.
 * @param f what to call
 */
export async function withRetry<T>(f: () => Promise<T>, times = 3): Promise<T> { return f() }
export const pause = async (ms: number): Promise<void> => {}
const hidden = 1
`

func TestSkills(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.do("", writeTo("skills/retry.ts", retrySkill),
		writeTo("skills/vat.py", "\"\"\"German value added tax.\n\nMore.\"\"\"\n\nasync def vat(net: float,\n  "+
			"rate=0.19) -> float:\n    return 1\n"))
	all, err := s.x.Skills().List(t.Context(), ann)
	if err != nil || len(all) != 2 {
		t.Fatalf("the skills of ann: %+v, %v, want two", all, err)
	}
	r, v := all[0], all[1]
	if r.Name != "retry.ts" || r.Description != "Calls f again when it fails." || !r.Own || r.Shared ||
		r.Import != `import { withRetry, pause } from "./skills/retry"` || len(r.Signatures) != 2 {
		t.Errorf("r = %+v", r)
	}
	if v.Description != "German value added tax." || v.Import != "from skills.vat import vat" ||
		len(v.Signatures) != 1 || v.Signatures[0] != "async def vat(net: float, rate=0.19) -> float" {
		t.Errorf("v = %+v", v)
	}
	bobSees := func() string {
		o := s.try(t.Context(), bob, "", ops(readOf("skills/retry.ts"), op{Get: "_"}))
		return o.value
	}
	if got := bobSees(); got != "" {
		t.Errorf("bob sees what is not shared: %s", got)
	}
	if err := s.x.Skills().Share(t.Context(), ann, "retry.ts", true); err != nil {
		t.Fatalf("Share: %v", err)
	}
	if got := bobSees(); !strings.Contains(got, "withRetry") {
		t.Errorf("bob doesn't see what is shared: %s", got)
	}
	s.do("work", writeTo("skills/retry.ts", "export const changed = 1"))
	if got := bobSees(); !strings.Contains(got, "withRetry") {
		t.Errorf("bob sees what was not shared: %s", got)
	}
	if k, err := s.x.Skills().Get(t.Context(), ann, "retry.ts"); err != nil || !k.Changed ||
		k.Source != "export const changed = 1" {
		t.Errorf("ann's changed copy: %+v, %v, want it marked as changed, with its new source", k, err)
	}
	if k, err := s.x.Skills().Get(t.Context(), bob, "retry.ts"); err != nil || k.Own || k.Source != retrySkill {
		t.Errorf("bob's view of the shared skill: %+v, %v, want the original, which is not his own", k, err)
	}
	for _, err := range []error{s.x.Skills().Remove(t.Context(), ann, "retry"),
		s.x.Skills().Share(t.Context(), ann, "retry", true)} {
		if kindOf(err) != tool.NotFound || !strings.Contains(err.Error(), "did you mean retry.ts?") {
			t.Errorf("a skill without its ending: %v", err)
		}
	}
	if err := s.x.Skills().Remove(t.Context(), bob, "retry.ts"); kindOf(err) != tool.NotFound {
		t.Errorf("bob removes ann's: %v", err)
	}
	s.restart()
	if err := s.x.Skills().Share(t.Context(), ann, "retry.ts", false); err != nil {
		t.Fatalf("Share: %v", err)
	}
	if got := bobSees(); got != "" {
		t.Errorf("bob sees what was taken back: %s", got)
	}
	s.do("", op{File: &sandbox.File{Op: "rm", Path: "skills/retry.ts"}})
	if all, _ := s.x.Skills().List(t.Context(), ann); len(all) != 1 {
		t.Errorf("the skills after one was removed: %+v, want one", all)
	}
	if err := s.x.Skills().Share(t.Context(), ann, "retry.ts", true); kindOf(err) != tool.NotFound {
		t.Errorf("share a removed skill: error %v, want kind not_found", err)
	}
}

func TestFilesOfSessions(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	if _, err := s.file("work", sandbox.File{Op: "list", Path: "."}); kindOf(err) != tool.NotFound {
		t.Errorf("of no session: %v", err)
	}
	s.do("work", writeTo("a.txt", "1"))
	if _, err := s.file("work", sandbox.File{Op: "write", Path: "b.bin", Data: "AAH/", Base64: true}); err != nil {
		t.Fatalf("file: %v", err)
	}
	if v, err := s.file("work", sandbox.File{Op: "list", Path: "workspace"}); err != nil ||
		v != `[{"name":"a.txt","dir":false},{"name":"b.bin","dir":false}]` {
		t.Errorf("v = %s, err = %v, want err == nil && v == "+
			"`[{\"name\":\"a.txt\",\"dir\":false},{\"name\":\"b.bin\",\"dir\":false}]`", v, err)
	}
	two := int64(2)
	if v := s.do("work", op{File: &sandbox.File{Op: "read", Path: "b.bin", Base64: true, Offset: 1, Length: &two}},
		op{Get: "_"}); v.value != `"Af8="` {
		t.Errorf("v.value = %v, want v.value == `\"Af8=\"`", v.value)
	}
	if v := s.do("work", op{File: &sandbox.File{Op: "stat", Path: "b.bin"}}, op{Get: "_"}); !strings.HasPrefix(v.value,
		`{"dir":false,"size":3,"mtime":`) {
		t.Errorf("v.value = %v, want strings.HasPrefix(v.value, `{\"dir\":false,\"size\":3,\"mtime\":`)", v.value)
	}
	if _, err := s.file("work", sandbox.File{Op: "write", Path: "tools/x", Data: "x"}); kindOf(err) != tool.Invalid {
		t.Errorf("write to ./tools: %v", err)
	}
	if _, err := s.file("work", sandbox.File{Op: "read", Path: "none"}); kindOf(err) != tool.NotFound {
		t.Errorf("read of nothing: %v", err)
	}
	o := s.do("work", op{Emit: "a.txt"}, op{Emit: "./workspace/b.bin"}, op{Emit: "none.txt"}, op{Emit: "res_none"})
	var blocks []map[string]any
	for _, raw := range o.res.Content {
		var b map[string]any
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		if b["type"] == "resource" {
			blocks = append(blocks, b["resource"].(map[string]any))
		}
	}
	if len(blocks) != 2 || blocks[0]["uri"] != "biplane://sessions/work/workspace/a.txt" || blocks[0]["text"] != "1" ||
		blocks[0]["mimeType"] != "text/plain" ||
		blocks[1]["blob"] != "AAH/" || blocks[1]["mimeType"] != "application/octet-stream" {
		t.Errorf("blocks = %v", blocks)
	}
	holds(t, o.text, "ENOENT", `nothing to show is kept under the handle "res_none"`)
	holds(t, s.do("", writeTo("x.json", "{}"), op{Emit: "x.json"}).text, "biplane://executions/ex_", "application/json")
}
