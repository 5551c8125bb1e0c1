package daemon_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store"
)

var oldBinary = flag.String("old-binary", "", "create testdata/old/folder.tar.zst again, with this release of biplane")

const (
	oldArchive = "testdata/old/folder.tar.zst"
	// oldConfig keeps everything for as long as possible. The request expires early, so that the
	// test doesn't change its meaning on a certain day: see renewRequest.
	oldConfig = askForWrites + `auth: { keys: true }
start_wait: 30s
journal: { keep: 3650d }
sessions: { unused: 3650d, max_age: 3650d }
approvals: { expires: 1m, keep: 3650d }
`
)

// oldFolder returns a house with the old data folder, not yet opened. The file biplane.ahead has
// entries that are not in the database, because the folder's owner was killed.
func oldFolder(t *testing.T) *scene {
	h := &house{dir: t.TempDir(), book: newBook(t), keys: map[string]string{}}
	if *oldBinary != "" {
		createOldFolder(t, h.book.url)
	}
	f, err := os.Open(oldArchive)
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatalf("zstd.NewReader: %v", err)
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		b, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(h.dir, e.Name), b, 0o600)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
	key, err := os.ReadFile(filepath.Join(h.dir, "carol.key"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	h.keys["carol"] = strings.TrimSpace(string(key))
	h.config = oldConfig + "mcpServers: { book: { url: '" + h.book.url + "' } }\n"
	return &scene{T: t, house: h, channel: byAPI, label: "old-"}
}

// renewRequest sets the expiry of the pending request to the future, as if the folder were new.
func (h *house) renewRequest(t *testing.T) {
	s, err := store.Open(t.Context(), store.Config{Path: h.dir}) // applies biplane.ahead
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	key, err := secret.Open(filepath.Join(h.dir, "key"))
	if err != nil {
		t.Fatalf("secret.Open: %v", err)
	}
	db, err := sql.Open("sqlite", filepath.Join(h.dir, store.File))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	defer db.Close()
	var id string
	var sealed []byte
	if err := db.QueryRow(`SELECT id, request FROM approval WHERE state = 'pending'`).Scan(&id, &sealed); err != nil {
		t.Fatalf("Scan: %v", err)
	}
	text, err := key.Unseal("approval-request", sealed, []byte(id))
	if err != nil {
		t.Fatalf("Unseal: %v", err)
	}
	var request map[string]json.RawMessage
	if err := json.Unmarshal(text, &request); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	if request["expires"], err = json.Marshal(time.Now().Add(time.Hour)); err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	if text, err = json.Marshal(request); err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	var guarded string // the trigger that keeps requests from being changed
	const trigger = `SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = 'approval_update'`
	if err := db.QueryRow(trigger).Scan(&guarded); err != nil {
		t.Fatalf("Scan: %v", err)
	}
	for _, change := range []struct {
		query string
		args  []any
	}{
		{`DROP TRIGGER approval_update`, nil},
		{`UPDATE approval SET request = ? WHERE id = ?`, []any{key.Seal("approval-request", text, []byte(id)), id}},
		{guarded, nil},
	} {
		if _, err := db.Exec(change.query, change.args...); err != nil {
			t.Fatalf("Exec: %v", err)
		}
	}
}

// TestOldFolder opens a data folder of an earlier release, testdata/old: the record verifies, the
// key is valid, sessions have their state, and the suspended execution continues if it can.
func TestOldFolder(t *testing.T) {
	t.Parallel()
	s := oldFolder(t)
	s.renewRequest(t)
	s.open(t)
	verify := func() {
		t.Helper()
		if r, err := s.client().Audit().Verify(t.Context()); err != nil || !r.OK {
			t.Errorf("the audit record: %+v, %v; want it whole", r, err)
		}
	}
	verify()

	// The API key is valid, and names the same person.
	keys, err := s.client().Keys().List(t.Context())
	if err != nil || len(keys) != 1 || keys[0].Name != "carol" {
		t.Errorf("keys: %+v, %v; want carol's", keys, err)
	}

	// The executions are listed. The one that ended is replayed, by whichever build of the engine.
	page, err := s.client().Executions(t.Context(), api.ExecutionFilter{Limit: 100})
	if err != nil || len(page.Executions) != 7 {
		t.Fatalf("%d executions, %v; want 7", len(page.Executions), err)
	}
	s.run = page.Executions[0].ID
	ended := page.Executions[len(page.Executions)-1]
	replay, err := s.client().Replay(t.Context(), ended.ID, api.ReplayRequest{})
	if err != nil {
		t.Fatalf("Replay: %v", err)
	}
	anotherEngine := strings.Contains(strings.Join(replay.Notes, "\n"), "ran on another build of the engine")
	before, err := s.client().Journal(t.Context(), ended.ID)
	if err != nil || before.State != api.StateDone || replay.State != api.StateDone ||
		string(replay.Value) != string(before.Value) || !replay.Same && !anotherEngine {
		t.Errorf("replay of %+v: %+v, %v; want the same result", before, replay, err)
	}

	// Sessions have their variables, functions and files in both languages. If the build of the
	// engine is another one, the session's programs are run again, once.
	for _, next := range []struct {
		session, language, code, want string
		first                         bool
	}{
		{"js", "typescript", `seen.add("c"); [...seen, twice(21)]`, `["a","b","c",42]`, true},
		{"js", "typescript", `(await import("node:fs/promises")).readFile("notes.txt", "utf8")`, `"kept"`, false},
		{"js", "typescript", `seen.size`, `3`, false},
		{"py", "python", "seen.append(3)\n[seen, twice(21)]", `[[1,2,3],42]`, true},
		{"py", "python", "len(seen)", `3`, false},
	} {
		x, err := s.client().Run(t.Context(),
			api.RunRequest{Code: next.code, Language: next.language, Session: next.session})
		if err != nil || x.Error != nil || string(x.Value) != next.want {
			t.Fatalf("session %s: %s returned %+v, %v; want %s", next.session, next.code, x, err, next.want)
		}
		want := ""
		if anotherEngine && next.first {
			want = "its state is of another build of the engine"
		}
		if x.Rebuilt != want {
			t.Errorf("session %s: rebuilt since %q; want %q", next.session, x.Rebuilt, want)
		}
	}

	// The suspended execution continues after the write is approved, with what it had read before.
	// Another build of the engine can't continue it; it ends, and its request with it.
	var written []string
	if anotherEngine {
		d, err := s.client().Journal(t.Context(), s.run)
		if err != nil || d.State != api.StateInterrupted || d.Error == nil ||
			!strings.Contains(d.Error.Message, "it ran on another build of the engine") {
			t.Errorf("the suspended execution: %+v, %v; want it interrupted", d, err)
		}
		requests, err := s.client().Approvals().ListFor(t.Context(), s.run, true)
		if err != nil || len(requests) != 1 || requests[0].State != "withdrawn" {
			t.Errorf("its requests: %+v, %v; want one, withdrawn", requests, err)
		}
	} else {
		s.decides(true, s.pending()[0].ID, "")
		if d := s.done(); string(d.Value) != `["old-0 was number 1","old-1 was number 1"]` {
			t.Errorf("the suspended execution returned %s", d.Value)
		}
		written = []string{"1"}
	}
	s.wrote(written...)
	if read := s.book.of(s.book.read, "old-"); *oldBinary == "" && len(read) != 0 {
		t.Errorf("read again: %q; the journal has the answers", read)
	}
	s.restart(t, nil)
	verify()
}

// createOldFolder writes the archive with the binary of an earlier release.
func createOldFolder(t *testing.T, url string) {
	dir := t.TempDir()
	configFile, data := filepath.Join(dir, "biplane.yaml"), filepath.Join(dir, "data")
	if err := os.WriteFile(configFile, []byte(oldConfig+"mcpServers: { book: { url: '"+url+"' } }\n"),
		0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	command := func(args ...string) *exec.Cmd {
		c := exec.Command(*oldBinary, append(args, "--config", configFile, "--data-dir", data)...)
		c.Stderr = os.Stderr
		return c
	}
	serve := command("serve", "--listen", "127.0.0.1:0")
	out, err := serve.StdoutPipe()
	if err == nil {
		err = serve.Start()
	}
	if err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill(); _ = serve.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // its address: it owns the folder
		t.Fatalf("ReadString: %v", err)
	}
	run := func(status int, args ...string) string {
		t.Helper()
		c := command(args...)
		b, err := c.Output()
		if c.ProcessState == nil || c.ProcessState.ExitCode() != status {
			t.Fatalf("%q: %v, %s; want exit code %d", args, err, b, status)
		}
		return string(b)
	}
	created := run(0, "keys", "create", "carol", "--role", "approver", "--scope", "api")
	key := regexp.MustCompile(`bp_\S+`).FindString(created)
	if key == "" {
		t.Fatal("no key was printed")
	}
	run(0, "run", "-c", `return [Math.random(), Date.now(), await book.read({ key: "old-ended" })]`)
	run(0, "run", "--session", "js", "-c", `const seen = new Set(["a"]); function twice(x: number) { return 2 * x }`)
	run(0, "run", "--session", "js", "-c",
		`import { writeFile } from "node:fs/promises"; await writeFile("notes.txt", "kept"); seen.add("b")`)
	run(0, "run", "--session", "py", "--language", "python", "-c", "seen = [1]\ndef twice(x):\n    return 2 * x")
	run(0, "run", "--session", "py", "--language", "python", "-c", "seen.append(2)")
	run(0, "run", "--session", "other", "-c", `let n = 1`)
	run(3, "run", "-c",
		`const first = await book.read({ key: "old-0" }); return [first, await book.write({ key: "old-1" })]`)
	if err := serve.Process.Kill(); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	_ = serve.Wait()

	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatalf("zstd.NewWriter: %v", err)
	}
	w := tar.NewWriter(z)
	add := func(name string, b []byte) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(b))}); err != nil {
			t.Fatalf("WriteHeader: %v", err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	add("carol.key", []byte(key))
	entries, err := os.ReadDir(data)
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), "-shm") || e.Name() == "lock" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(data, e.Name()))
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		add(e.Name(), b)
	}
	if err := errors.Join(w.Close(), z.Close(), os.WriteFile(oldArchive, packed.Bytes(), 0o644)); err != nil {
		t.Fatalf("errors.Join: %v", err)
	}
}
