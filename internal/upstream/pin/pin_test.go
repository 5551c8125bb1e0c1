package pin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/pin"
)

func newTool(name, description, schema string) *tool.Tool {
	return &tool.Tool{Upstream: "files", Name: name, Description: description, InputSchema: json.RawMessage(schema)}
}

// TestDigest checks that the digest is of what a definition means, and of all that a model reads.
func TestDigest(t *testing.T) {
	base := newTool("read", "Reads.", `{"type":"object","properties":{"a":{"type":"string"},"b":{"maximum":1.0}}}`)
	digest := pin.DigestOf(pin.DefinitionOf(base))
	same := newTool("read", "Reads.",
		`{ "properties": {"b":{"maximum":1}, "\u0061":{"type":"string"}}, "type": "object" }`)
	reads := true
	same.Annotations.ReadOnly = &reads
	same.Raw = json.RawMessage(`{"_meta":{"at":1}}`)
	if got := pin.DigestOf(pin.DefinitionOf(same)); got != digest {
		t.Errorf("another form of the same definition has the digest %s, want %s", got, digest)
	}
	for what, change := range map[string]func(*tool.Tool){
		"description":   func(x *tool.Tool) { x.Description += " " },
		"title":         func(x *tool.Tool) { x.Title = "Read" },
		"input schema":  func(x *tool.Tool) { x.InputSchema = json.RawMessage(`{"type":"object"}`) },
		"output schema": func(x *tool.Tool) { x.OutputSchema = json.RawMessage(`{"type":"object"}`) },
		"large number": func(x *tool.Tool) {
			x.InputSchema = bytes.Replace(x.InputSchema, []byte("1.0"), []byte("9007199254740993"), 1)
		},
		"invalid schema": func(x *tool.Tool) { x.OutputSchema = json.RawMessage(`{`) },
	} {
		x := *base
		change(&x)
		if pin.DigestOf(pin.DefinitionOf(&x)) == digest {
			t.Errorf("%s: the digest did not change", what)
		}
	}
	a, b := newTool("read", "x", `{"maximum":9007199254740993}`), newTool("read", "x", `{"maximum":9007199254740992}`)
	if pin.DigestOf(pin.DefinitionOf(a)) == pin.DigestOf(pin.DefinitionOf(b)) {
		t.Error("two large numbers have one digest")
	}
}

// TestEncoding checks that a lock is read as it was written, and written the same each time.
func TestEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := pin.NewLock()
		names := rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, "names")
		for _, name := range names {
			x := newTool(name, rapid.String().Draw(t, "description"),
				`{"type":"object","minimum":1e400,"x":"<&>\u2028"}`)
			x.Upstream = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "upstream")
			if err := l.SetPin(x, rapid.Bool().Draw(t, "reviewed")); err != nil {
				t.Fatalf("SetPin: %v", err)
			}
		}
		data, err := l.EncodeLock()
		if err != nil {
			t.Fatalf("EncodeLock: %v", err)
		}
		back, err := pin.ParseLock(data)
		if err != nil {
			t.Fatalf("ParseLock(%s): %v", data, err)
		}
		again, err := back.EncodeLock()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("EncodeLock after ParseLock: %s (%v), want %s", again, err, data)
		}
	})
}

func TestMalformed(t *testing.T) {
	l := pin.NewLock()
	if err := l.SetPin(newTool("read", "Reads.", `{"type":"object"}`), false); err != nil {
		t.Fatalf("SetPin: %v", err)
	}
	good, err := l.EncodeLock()
	if err != nil {
		t.Fatalf("EncodeLock: %v", err)
	}
	for name, data := range map[string]string{
		"nothing":         "",
		"half":            string(good[:len(good)/2]),
		"conflict":        "<<<<<<< HEAD\n" + string(good),
		"two":             string(good) + string(good),
		"a changed text":  strings.Replace(string(good), "Reads.", "Reads!", 1),
		"another version": strings.Replace(string(good), `"version": 1`, `"version": 2`, 1),
		"no version":      `{"servers": {}}`,
		"unknown key":     `{"version": 1, "server": {}}`,
		"unknown in pin":  strings.Replace(string(good), `"digest"`, `"accepted": true, "digest"`, 1),
		"no pin":          `{"version": 1, "servers": {"files": {"read": null}}}`,
		"twice":           `{"version": 1, "servers": {"files": {}, "files": {}}}`,
		"deep":            `{"version": 1, "servers": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}",
		"null":            "null",
		"a list":          "[]",
	} {
		if _, err := pin.ParseLock([]byte(data)); err == nil {
			t.Errorf("%s: ParseLock returns no error", name)
		}
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte(`{"version": 1, "servers": {"a": {"b": {"digest": "sha256:", "definition": {}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := pin.ParseLock(data)
		if err != nil {
			return
		}
		out, err := l.EncodeLock()
		if err != nil {
			t.Fatalf("EncodeLock: %v", err)
		}
		if _, err := pin.ParseLock(out); err != nil {
			t.Fatalf("ParseLock(%s): %v", out, err)
		}
	})
}

func openFile(t *testing.T, path string) *pin.File {
	t.Helper()
	f, err := pin.OpenFile(path)
	if err != nil {
		t.Fatalf("OpenFile: %v", err)
	}
	return f
}

func setPin(t *testing.T, f *pin.File, x *tool.Tool) {
	t.Helper()
	if err := f.UpdateLock(func(l *pin.Lock) error { return l.SetPin(x, false) }); err != nil {
		t.Fatalf("UpdateLock: %v", err)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "biplane.lock")
	f := openFile(t, path)
	a, b := newTool("a", "A", `{}`), newTool("b", "B", `{}`)
	setPin(t, f, a)
	if err := f.UpdateLock(func(l *pin.Lock) error {
		_ = l.SetPin(b, false)
		return errors.New("refused")
	}); err == nil {
		t.Error("UpdateLock returns no error of its function")
	}
	if l, err := f.ReadLock(); err != nil || l.FindPin(a) == nil || l.FindPin(b) != nil {
		t.Errorf("after an update that failed: %v, %v; want only a", l, err)
	}

	// Another process changes the file: both changes are kept.
	setPin(t, openFile(t, path), b)
	setPin(t, f, newTool("c", "C", `{}`))
	l, err := openFile(t, path).ReadLock()
	if err != nil || len(l.Servers["files"]) != 3 {
		t.Errorf("after changes of two processes: %v, %v; want three tools", l, err)
	}

	// A crash in the middle of an update leaves a part of the temporary file.
	part := filepath.Join(filepath.Dir(path), ".biplane.lock-123")
	if err := os.WriteFile(part, []byte(`{"vers`), 0o600); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	if _, err := openFile(t, path).ReadLock(); err != nil {
		t.Errorf("ReadLock after a crash: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".biplane.lock-*"))
	if err != nil || len(left) != 1 {
		t.Errorf("temporary files %v (%v), want only the one of the crash", left, err)
	}

	// A file that disappears is not one without pins.
	if err := os.Remove(path); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if _, err := f.ReadLock(); err == nil || !strings.Contains(err.Error(), "has been removed") {
		t.Errorf("ReadLock of a removed file: %v, want an error", err)
	}
	if err := f.UpdateLock(func(*pin.Lock) error { return nil }); err == nil {
		t.Error("UpdateLock of a removed file returns no error")
	}

	// A malformed one stays as it is.
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	if _, err := pin.OpenFile(path); err == nil || !strings.Contains(err.Error(), "is malformed") {
		t.Errorf("OpenFile of a malformed file: %v, want an error", err)
	}
	if err := f.UpdateLock(func(*pin.Lock) error { return nil }); err == nil {
		t.Error("UpdateLock of a malformed file returns no error")
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "{" {
		t.Errorf("the malformed file is %q (%v), want it unchanged", data, err)
	}
}

// TestLink checks that the target of a link is replaced, not the link, and that its mode is kept.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real.lock"), filepath.Join(dir, "biplane.lock")
	setPin(t, openFile(t, path), newTool("a", "A", `{}`))
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatalf("Chmod: %v", err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Skipf("links can't be made here: %v", err)
	}
	setPin(t, openFile(t, link), newTool("b", "B", `{}`))
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v (%v), want a link", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v (%v), want mode 600", info, err)
	}
}

func TestConcurrentUpdates(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "biplane.lock"))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			x := newTool(strings.Repeat("x", i+1), "X", `{}`)
			if err := f.UpdateLock(func(l *pin.Lock) error { return l.SetPin(x, false) }); err != nil {
				t.Errorf("UpdateLock: %v", err)
			}
			if l, err := f.ReadLock(); err != nil || l.FindPin(x) == nil {
				t.Errorf("ReadLock: %v, want the pin of %s", err, x.Name)
			}
		})
	}
	wg.Wait()
}

func TestMost(t *testing.T) {
	l := pin.NewLock()
	l.Servers["files"] = map[string]*pin.Pin{}
	for i := range pin.MaxTools {
		l.Servers["files"][strings.Repeat("x", i%100)+string(rune(i))] = &pin.Pin{}
	}
	if err := l.SetPin(newTool("one more", "", `{}`), false); err == nil || !strings.Contains(err.Error(), "maximum") {
		t.Errorf("SetPin of one tool too many: %v, want an error", err)
	}
}

func TestDiff(t *testing.T) {
	was := pin.DefinitionOf(newTool("a", "Reads.\nFast.", `{"type":"object"}`))
	now := pin.DefinitionOf(newTool("a", "Reads.\nFast\u202e.\u001b[2J", `{"type":"object","properties":{"x":{}}}`))
	got := pin.DiffDefinitions(was, now)
	for _, want := range []string{"\n-  Fast.\n", "\n+  Fast\\u202e.\\u001b[2J\n", "\n+    \"properties\": {\n",
		"\n   Reads.\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the diff is %q, want %q in it", got, want)
		}
	}
	if got := pin.DiffDefinitions(was, was); got != "" {
		t.Errorf("the diff of equal definitions is %q, want none", got)
	}
	long := pin.DefinitionOf(newTool("a", strings.Repeat("one line\n", 10_000), `{}`))
	if got := pin.DiffDefinitions(was, long); len(got) > 20_000 || !strings.HasSuffix(got, "… and more\n") {
		t.Errorf("the diff of a long definition has %d bytes, want it cut short", len(got))
	}
}
