package executor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A oneCall is a sandbox whose guest makes one call, and ends with its answer. It uses only
// synctest's time.
type oneCall struct{}

func (oneCall) Probe(context.Context) (sandbox.Capabilities, error) {
	return sandbox.Capabilities{Tier: tool.WASM, Runtimes: []string{"js"}}, nil
}
func (oneCall) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) { return oneCall{}, nil }
func (oneCall) Close() error                                                  { return nil }

func (oneCall) Run(_ context.Context, cmd *sandbox.Cmd) (int, error) {
	lines := bufio.NewScanner(cmd.Guest)
	lines.Scan() // the program
	if _, err := io.WriteString(cmd.Guest, `{"call":{"id":1,"path":"github.export"}}`+"\n"); err != nil {
		return 1, err
	}
	lines.Scan() // the answer
	_, err := io.WriteString(cmd.Guest, `{"done":{"value":1}}`+"\n")
	return 0, err
}

func (oneCall) Prepare(program.Request) (*program.Program, error) { return &program.Program{}, nil }

// TestProgressNeverStops checks that a client that extends its timeout on progress never waits long
// for it, in execute and in resume. Progress reported by the tool is passed on immediately.
func TestProgressNeverStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			<-time.After(20 * time.Second) // fake time
			c.Observe().OnProgress(t.Context(), tool.Progress{Done: 40, Total: 100})
			<-time.After(60 * time.Second)
			c.Observe().OnProgress(t.Context(), tool.Progress{Done: 90, Total: 100, Message: "upload\ning"})
			<-time.After(15 * time.Second)
			return tool.Text(false, "exported"), nil
		})
		x, err := New(Config{Drivers: sandbox.OnlyDriver(oneCall{}), Programs: oneCall{},
			Door: door})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		defer x.Close()
		begin, last := time.Now(), time.Now()
		value, saw := 0.0, map[string]time.Duration{}
		told := func(p tool.Progress) {
			if gap := time.Since(last); gap > 5500*time.Millisecond {
				t.Errorf("nothing was told for %s", gap)
			}
			if p.Done <= value {
				t.Errorf("progress %g after %g", p.Done, value)
			}
			last, value = time.Now(), p.Done
			if _, ok := saw[p.Message]; !ok {
				saw[p.Message] = time.Since(begin).Round(time.Second)
			}
		}
		res, err := x.Execute().Call(t.Context(),
			&tool.Call{Arguments: json.RawMessage(`{"code":"x"}`), Observer: progressWatch{told: told}})
		for range 2 {
			if err != nil {
				t.Fatalf("err = %v, want nil", err)
			}
			var v struct {
				Meta map[string]struct{ ID, State string } `json:"_meta"`
			}
			if err := json.Unmarshal(res.Raw, &v); err != nil {
				t.Fatalf("json.Unmarshal: %v", err)
			}
			e := v.Meta["biplane.dev/execution"]
			if e.State == "done" {
				break
			}
			args := fmt.Sprintf(`{"execution":%q}`, e.ID)
			res, err = x.Resume().Call(t.Context(),
				&tool.Call{Arguments: json.RawMessage(args), Observer: progressWatch{told: told}})
		}
		if len(res.Content) == 0 || res.IsError || time.Since(begin).Round(time.Second) != 95*time.Second {
			t.Errorf("%s after %s", res.Raw, time.Since(begin))
		}
		for msg, at := range map[string]time.Duration{
			"0 calls done, 1 running: github.export":                         1,
			"0 calls done, 1 running: github.export: 40 of 100":              20,
			"0 calls done, 1 running: github.export: upload ing (90 of 100)": 80,
		} {
			if got, ok := saw[msg]; !ok || got-at*time.Second > 2*time.Second {
				t.Errorf("%q was told at %s, want about %s: %v", msg, got, at*time.Second, saw)
			}
		}
	})
}

// A progressWatch is an Observer of progress.
type progressWatch struct {
	tool.NoObserver
	told func(tool.Progress)
}

func (progressWatch) WantsProgress() bool                             { return true }
func (w progressWatch) OnProgress(_ context.Context, p tool.Progress) { w.told(p) }
