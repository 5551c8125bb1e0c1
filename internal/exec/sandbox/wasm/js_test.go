package wasm

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

func TestSplitAnswer(t *testing.T) {
	at, id, text, ok := splitAnswer(`{"at":12,"answer":{"id":0,"value":{"a":{}}}}`)
	if at != 12 || id != 0 || text != `{"a":{}}` || !ok {
		t.Errorf("at = %v, id = %v, text = %v, ok = %v, want at == 12 && id == 0 && text == "+
			"`{\"a\":{}}` && ok", at, id, text, ok)
	}
	for _, line := range []string{
		``, `{"at":1}`, `{"at":-1,"answer":{"id":1,"value":1}}`, `{"at":1,"answer":{"id":01,"value":1}}`,
		`{"at":1,"answer":{"id":1.5,"value":1}}`,
		`{"at":1,"answer":{"id":1}}`, `{"at":1,"answer":{"id":1,"error":{"message":"x"}}}`,
		`{"at":1,"answer":{"id":1,"value":1} }`,
		`{"answer":{"id":1,"value":1}}`, `{"at":,"answer":{"id":1,"value":1}}`,
		`{"at":1,"answer":{"id":1000000000000000,"value":1}}`,
	} {
		if _, _, _, ok := splitAnswer(line); ok {
			t.Errorf("line = %v, want !ok", line)
		}
	}
}

// TestGive sends a guest the same answer in two forms: one that is parsed outside the guest, and
// one that isn't. The guest must send the same lines.
func TestGive(t *testing.T) {
	d := realDriver(t, Config{})
	for _, answer := range []string{
		`"value":{"i":[1,null,"x}}"]}`, `"value":1`, `"value":null`, `"value":1234567890123456789`,
		`"value":1,"error":null`,
		`"value":1,"error":{"message":"no","kind":"denied"}`, `"value":1}},{"x":{"y":1`, `"value":1,"value":2`,
		`"value": 1 `,
	} {
		said := func(line string) string {
			k := newKept(t, d, sandbox.Spec{})
			c := &script{Reader: strings.NewReader(program(
				`(async () => { try { return [await test.echo({})] } catch (e) { return e.message } })`) + "\n" +
				line + "\n")}
			_, err := k.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true})
			if err != nil {
				return c.String() + err.Error()[:20]
			}
			return c.String()
		}
		quick, slow := said(`{"at":1767225700000,"answer":{"id":1,`+answer+`}}`),
			said(`{"at":1767225700000, "answer":{"id":1,`+answer+`}}`)
		if quick != slow || !strings.Contains(quick, `"id":1,"path":"test.echo","args":{}`) {
			t.Errorf("answer = %s, quick = %s, slow = %s, want quick == slow && strings.Contains(quick, "+
				"`\"id\":1,\"path\":\"test.echo\",\"args\":{}`)", answer, quick, slow)
		}
	}
}
