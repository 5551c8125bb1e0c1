//go:build linux && (amd64 || arm64)

package pyguest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A programTest is a program of testdata and its expected outcome: lines after "--- ", in this
// order.
//
//	value JSON         the value; no line if there is no value
//	fail Name: text    the error, with text somewhere in its message
//	at 3, 7            the lines of the error's frames, outermost first
//	log text           a line of the console, with its level as the keyword
//	calls a b          the paths of the calls, in order
//	unawaited 2        number of calls that were never awaited
//	held 1             how often the guest blocked until the next line
type programTest struct {
	name, code string
	want       []string
}

func programTests(t *testing.T, file string) []programTest {
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	var all []programTest
	for _, part := range strings.Split("\n"+string(b), "\n=== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		p := programTest{name: name}
		var code []string
		for _, l := range strings.Split(strings.TrimRight(rest, "\n"), "\n") {
			if w, ok := strings.CutPrefix(l, "--- "); ok {
				p.want = append(p.want, w)
			} else {
				code = append(code, l)
			}
		}
		p.code = strings.Join(code, "\n")
		all = append(all, p)
	}
	return all
}

// testTools implements the tools of the programs. It returns the result, the duration of the call
// and any error.
func testTools(path string, raw json.RawMessage) (any, time.Duration, *sandbox.GuestError) {
	var args map[string]any
	_ = json.Unmarshal(raw, &args)
	ms := 10 * time.Millisecond
	if d, ok := args["ms"].(float64); ok {
		ms = time.Duration(d) * time.Millisecond
	}
	switch path {
	case "github.list_issues":
		var all []any
		for i := 1; i <= 3; i++ {
			all = append(all, map[string]any{"number": i, "title": fmt.Sprintf("issue %d", i), "labels": []any{"bug"},
				"user": map[string]any{"login": "ada"}})
		}
		return all, ms, nil
	case "github.get_issue":
		n, _ := args["number"].(float64)
		if n == 404 {
			return nil, ms, &sandbox.GuestError{Message: "no issue 404", Kind: "not_found", Upstream: "github",
				Tool: "get_issue", Data: json.RawMessage(`{"status":404,"retryable":false,"retry_after":1.5,"x":[1]}`)}
		}
		return map[string]any{"number": int(n), "title": fmt.Sprintf("issue %d", int(n)),
			"big": json.RawMessage("12345678901234567890")}, ms, nil
	case "github.count":
		return 42, ms, nil
	case "github.text":
		return "plain text", ms, nil
	case "github.nothing":
		return nil, ms, nil
	case "biplane.fetch", "biplane.send":
		url, _ := args["url"].(string)
		out := map[string]any{"status": 200, "statusText": "OK", "url": url,
			"headers": map[string]any{"content-type": "text/plain"}, "text": `{"n": [1]}`}
		if headers, _ := args["headers"].(map[string]any); strings.Contains(url, "other.example") &&
			(headers["authorization"] != nil || headers["content-type"] != nil) {
			return nil, ms, &sandbox.GuestError{Message: "a header went to another host", Kind: "denied"}
		}
		if strings.HasSuffix(url, "/away") {
			out["status"], out["headers"] = 302, map[string]any{"location": "//other.example/here"}
		}
		return out, ms, nil
	case "biplane.search":
		return []any{map[string]any{"path": "github.list_issues", "query": args["query"]}}, ms, nil
	}
	return echo(path, raw)
}

func TestLanguage(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("files = %v, err = %v, want err == nil && len(files) != 0", files, err)
	}
	for _, f := range files {
		for _, p := range programTests(t, filepath.Base(f)) {
			t.Run(p.name, func(t *testing.T) {
				m := start(t)
				m.tools = testTools
				done, fail, err := m.run(sandbox.Run{Code: p.code})
				if err != nil {
					t.Fatalf("err = %v, p.code = %s, want err == nil", err, p.code)
				}
				if got := m.outcome(done, fail, p.want); got != strings.Join(p.want, "\n") {
					t.Errorf("%s\n\ngot\n%s\n\nwant\n%s\n(message: %v)", p.code, got, strings.Join(p.want, "\n"), fail)
				}
			})
		}
	}
}

// outcome returns the outcome of a program in the format of programTest. Details that want doesn't
// mention are included only if they matter.
func (m *machine) outcome(done *sandbox.Done, fail *sandbox.GuestError, want []string) string {
	var out []string
	add := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	mentions := func(key string) (rest string, ok bool) {
		for _, w := range want {
			if k, r, _ := strings.Cut(w, " "); k == key {
				return r, true
			}
		}
		return "", false
	}
	if fail != nil {
		add("fail %s: %s", fail.Name, fail.Message)
		if w, ok := mentions("fail"); ok && strings.HasPrefix(w, fail.Name+": ") &&
			strings.Contains(fail.Message, strings.TrimPrefix(w, fail.Name+": ")) {
			out[0] = "fail " + w
		}
		if _, ok := mentions("at"); ok {
			var lines []string
			for _, l := range strings.Split(fail.Stack, "\n") {
				if _, n, ok := strings.Cut(l, `File "program.py", line `); ok {
					n, _, _ = strings.Cut(n, ",")
					lines = append(lines, n)
				}
			}
			add("at %s", strings.Join(lines, ", "))
		}
	} else if done.Value != nil {
		add("value %s", done.Value)
	}
	for _, o := range m.out {
		if o.Console != nil {
			add("%s %s", o.Console.Level, strings.ReplaceAll(o.Console.Text, "\n", `\n`))
		}
		if o.Emit != nil {
			add("emit %s", o.Emit.Handle)
		}
	}
	if _, ok := mentions("calls"); ok {
		var paths []string
		for _, c := range m.calls {
			paths = append(paths, c.Path)
		}
		add("calls %s", strings.Join(paths, " "))
	}
	if done != nil && len(done.Unawaited) > 0 {
		add("unawaited %d", len(done.Unawaited))
	}
	if _, ok := mentions("held"); ok || m.nexts > 0 {
		add("held %s", strconv.Itoa(m.nexts))
	}
	if _, ok := mentions("took"); ok {
		add("took %d", m.clock-testTime)
	}
	return strings.Join(out, "\n")
}
