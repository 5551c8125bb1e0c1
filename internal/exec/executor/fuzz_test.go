package executor

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A parrot is a driver whose guests send given messages, and then read their input to the end.
type parrot struct{ says []byte }

func (p parrot) Probe(context.Context) (sandbox.Capabilities, error) {
	return sandbox.Capabilities{Driver: "parrot", Runtimes: []string{"js"}}, nil
}
func (p parrot) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) { return p, nil }
func (p parrot) Close() error                                                  { return nil }
func (p parrot) Run(ctx context.Context, cmd *sandbox.Cmd) (int, error) {
	if _, err := cmd.Guest.Write(p.says); err != nil {
		return -1, err
	}
	b := make([]byte, 4096)
	if _, err := cmd.Guest.Read(b); err != nil {
		return -1, err
	}
	return 0, nil
}

// FuzzGuest checks that execute returns a well-formed answer whatever the guest sends.
func FuzzGuest(f *testing.F) {
	for _, s := range []string{
		`{"done":{"value":1}}`, `{"done":{}}`, `{"fail":{"error":{"message":"x","stack":"at f (program.js:1:2)"}}}`,
		`{"call":{"id":1,"path":"a.b","args":{"x":1}}}` + "\n" + `{"done":{"unawaited":[1,2,-1]}}`,
		`{"file":{"id":1,"op":"list","path":"../.."}}` + "\n" + `{"file":{"id":1,"op":"","path":"a\u0000"}}`,
		`{"console":{"level":"log","text":"hi"}}` + "\n{}\n", `{"emit":{"handle":"x"}}`, "null", "[]", "", "\n\n",
		`{"done":{"value":"` + "\xff" + `"}}`,
		`{"call":{"id":1,"path":"biplane.result","args":{"handle":"res_","offset":-1}}}`, `{"call":null,"done":null}`,
		`{"done":{"value":{"type":"image","handle":"res_x"}}}`,
	} {
		f.Add([]byte(s + "\n"))
	}
	door := tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text(false, "{}"), nil
	})
	f.Fuzz(func(t *testing.T, says []byte) {
		x, err := New(Config{
			Drivers: sandbox.OnlyDriver(parrot{says}), Door: door,
			Programs: program.New(program.Config{}),
			Log:      slog.New(slog.DiscardHandler), Limits: Limits{Message: 1 << 10, Calls: 5, Console: 100,
				OutputTokens: 1 << 20}, AnswerWithin: time.Minute,
		})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		res, err := x.Execute().Call(t.Context(), &tool.Call{Arguments: json.RawMessage(`{"code":"return 1"}`)})
		if err != nil {
			t.Fatalf("Call: %v", err)
		}
		if !json.Valid(res.Raw) || len(res.Content) == 0 {
			t.Errorf("answer %s", res.Raw)
		}
		if err := x.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	})
}
