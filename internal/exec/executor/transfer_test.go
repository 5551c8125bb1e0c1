package executor_test

import (
	"bytes"
	"database/sql"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

func (s *stage) export(name, passphrase string) []byte {
	s.t.Helper()
	var b bytes.Buffer
	if err := s.x.Sessions().Export(s.t.Context(), ann, name, &b, passphrase); err != nil {
		s.t.Fatalf("Export: %v", err)
	}
	return b.Bytes()
}

func (s *stage) load(name string, file []byte, passphrase string) (*live.Info, error) {
	return s.x.Sessions().Import(s.t.Context(), ann, name, bytes.NewReader(file), passphrase)
}

// made creates a session that contains something of every kind.
func (s *stage) made() {
	s.t.Helper()
	s.do("work", op{Set: "x=1"}, writeTo("a.txt", "first"), op{File: &sandbox.File{Op: "mkdir", Path: "d"}},
		writeTo("d/b.bin", "\x00\x01"))
	s.do("work", op{Call: "box.one"}, op{Set: "x=+2"}, readOf("a.txt"), op{Call: "box.ask", Ask: true}, op{Sleep: 1},
		op{Set: "y=+"})
	if o := s.try(s.t.Context(), ann, "work", ops(op{Set: "z=3"}), "language", "python"); o.failed {
		s.t.Fatalf("o.text = %v, want !o.failed", o.text)
	}
}

func (s *stage) wantMade(name, from string) {
	s.t.Helper()
	s.want(name, "x", "12", from)
	if o := s.try(s.t.Context(), ann, name, ops(op{Get: "z"}), "language", "python"); o.value != "3" || o.from != from {
		s.t.Errorf("Python: %q from %s", o.value, o.from)
	}
	if v, err := s.file(name, sandbox.File{Op: "read", Path: "d/b.bin"}); v != "\x00\x01" || err != nil {
		s.t.Errorf(`v = %q, err = %v, want v == "\x00\x01" && err == nil`, v, err)
	}
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.made()
	sealed, locked := s.export("work", ""), s.export("work", "open sesame")
	for name, c := range map[string]struct {
		file []byte
		pass string
	}{"with-key": {sealed, ""}, "with-phrase": {locked, "open sesame"}} {
		i, err := s.load(name, c.file, c.pass)
		if err != nil || i.Programs != 3 || i.Files != 3 || i.Note != "" || i.State != "suspended" {
			t.Fatalf("%s, i = %+v, err = %v, want err == nil && i.Programs == 3 && i.Files == 3 && "+
				"i.Note == \"\" && i.State == \"suspended\"", name, i, err)
		}
		s.wantMade(name, "disk")
		s.do(name, op{Set: "x=other"})
	}
	s.wantMade("work", "memory")
	if bytes.Contains(sealed, []byte("first")) || bytes.Contains(locked, []byte("first")) {
		t.Error("a file can be read in the export")
	}
	if _, err := s.load("", sealed, ""); kindOf(err) != tool.Conflict {
		t.Errorf("under its own name, which is there: %v", err)
	}
	for what, c := range map[string]struct {
		file []byte
		pass string
		want string
	}{
		"no passphrase":    {locked, "", "give it"},
		"wrong passphrase": {locked, "x", "passphrase is wrong"},
		"nothing":          {nil, "", "not a session that this version can import"},
		"other text":       {[]byte("hello\nworld\n"), "", "not a session that this version can import"},
		"newer": {bytes.Replace(sealed, []byte("session 1"), []byte("session 2"), 1), "",
			"not a session that this version can import"},
	} {
		if _, err := s.load("new", c.file, c.pass); kindOf(err) != tool.Invalid ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("what = %s, err = %v, want kindOf(err) == tool.Invalid && "+
				"strings.Contains(err.Error(), c.want)", what, err)
		}
	}
	other := newStage(t, nil)
	other.stop()
	other.key, _ = secret.NewKey(bytes.Repeat([]byte{7}, secret.KeySize))
	other.start()
	if _, err := other.load("", sealed, ""); kindOf(err) != tool.Invalid ||
		!strings.Contains(err.Error(), "another data folder") {
		t.Errorf("with another key: %v", err)
	}
	if _, err := other.load("", locked, "open sesame"); err != nil {
		t.Errorf("load: %v", err)
	}
	other.wantMade("work", "disk")
}

// TestLabelsOfAnImport checks that labels are added when a file sealed with a passphrase is
// imported: anyone may have written it, and omitted labels.
func TestLabelsOfAnImport(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.do("work", op{Set: "x=1"})
	for name, c := range map[string]struct {
		pass string
		want []string
	}{"sealed": {"", nil}, "locked": {"open sesame", []string{"confidential", "pii", "untrusted"}}} {
		if _, err := s.load(name, s.export("work", c.pass), c.pass); err != nil {
			t.Fatalf("load: %v", err)
		}
		i, err := s.x.Sessions().Get(t.Context(), ann, name)
		if err != nil {
			t.Fatalf("Get: %v", err)
		}
		if !slices.Equal(i.Labels, c.want) {
			t.Errorf("the session of the %s file has the labels %q, want %q", name, i.Labels, c.want)
		}
	}
}

// TestTamperedExports checks that an exported session is rejected if any byte is changed or it is
// truncated anywhere.
func TestTamperedExports(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.do("work", op{Set: "x=1"})
	file := s.export("work", "")
	refused := func(what string, at int, b []byte) {
		t.Helper()
		if i, err := s.load("new", b, ""); kindOf(err) != tool.Invalid {
			t.Fatalf("%s at %d of %d: %+v, %v", what, at, len(file), i, err)
		}
	}
	for at := range file {
		if file[at] == '\n' && at < 200 {
			continue
		}
		if at%16 != 0 && at > 60 && at < len(file)-8 {
			continue
		}
		b := bytes.Clone(file)
		b[at] ^= 1
		refused("changed", at, b)
		if at%48 == 0 {
			refused("cut", at, file[:at])
		}
	}
	refused("longer", len(file), append(bytes.Clone(file), 0))
}

func FuzzImport(f *testing.F) {
	s := newStage(f, nil)
	f.Add([]byte("biplane session 1\nkey AAAA\nage-encryption.org/v1\n"))
	f.Add(bytes.Repeat([]byte("biplane session 1\n"), 3))
	f.Fuzz(func(t *testing.T, file []byte) {
		if i, err := s.x.Sessions().Import(t.Context(), ann, "new", bytes.NewReader(file), ""); err == nil {
			t.Fatalf("i = %+v, want err != nil", i)
		}
	})
}

// TestRebuild checks that a session stored by another build of the engine is rebuilt from its
// journal, and that this is reported.
func TestRebuild(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.made()
	file := s.export("work", "")
	s.bad("work", op{Set: "x=wrong"}, op{Fail: "it never was"})
	s.stop()
	s.p.engine = "2"
	s.start()
	o := s.do("work", op{Get: "x"})
	if o.value != "12" || o.from != "journal" {
		t.Errorf("%q from %s", o.value, o.from)
	}
	holds(t, o.text, "session work (rebuilt from its journal in ", "since its state is of another build of the engine")
	id, _ := idOf(t, o.res)
	if e, ok := s.x.Execution(id); !ok || !strings.Contains(e.Rebuilt, "another build of the engine") {
		t.Errorf(`e = %+v, want ok && strings.Contains(e.Rebuilt, "another build of the engine")`, e)
	}
	s.restart()
	s.want("work", "x", "12", "disk")
	i, err := s.load("copy", file, "")
	if err != nil || !strings.Contains(i.Note, "rebuilt from its journal") {
		t.Fatalf(`i = %+v, err = %v, want err == nil && strings.Contains(i.Note, "rebuilt from its journal")`, i, err)
	}
	s.wantMade("copy", "disk")
}

func TestRebuildWithoutJournal(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) { c.Limits.Sessions.Journal = 2000 })
	s.do("work", op{Set: "x=1"})
	s.do("work", op{Set: "y=" + strings.Repeat("y", 3000)})
	file := s.export("work", "")
	s.stop()
	s.p.engine = "2"
	s.start()
	o := s.bad("work", op{Get: "x"})
	holds(t, o.text, "engine build 1, this one is 2", "nor rebuilt", "its programs heard more than 2 KB", "End it",
		"is as it was before")
	if _, err := s.load("copy", file, ""); kindOf(err) != tool.Conflict ||
		!strings.Contains(err.Error(), "no journal") {
		t.Errorf("import: %v", err)
	}
	if err := s.x.Sessions().End(t.Context(), ann, "work"); err != nil {
		t.Errorf("End: %v", err)
	}
	s.want("work", "x", "", "new")
}

// TestDamagedStore checks that a session that others modified in the store is refused, or rebuilt
// if its journal is intact, and that it can be deleted.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	damage := func(query string) {
		t.Helper()
		s.stop()
		db, err := sql.Open("sqlite", filepath.Join(s.dir, "biplane.db"))
		if err != nil {
			t.Fatalf("sql.Open: %v", err)
		}
		defer db.Close()
		if r, err := db.Exec(query); err != nil {
			t.Fatalf("Exec: %v", err)
		} else if n, _ := r.RowsAffected(); n == 0 {
			t.Fatalf("%s changed nothing", query)
		}
		s.start()
	}
	const notJournal = `(SELECT blob FROM session_ref WHERE seq IS NULL)`
	const journal = `(SELECT blob FROM session_ref WHERE seq IS NOT NULL)`
	s.do("work", op{Set: "x=1"})
	for _, query := range []string{
		`UPDATE session_blob SET data = CAST(substr(data, 1, length(data) - 1) || CASE WHEN substr(data, -1) = x'00' ` +
			`THEN x'01' ELSE x'00' END AS BLOB) WHERE id IN ` + notJournal,
		`DELETE FROM session_blob WHERE id IN ` + notJournal,
		`UPDATE session_blob SET data = NULL WHERE id IN ` + notJournal,
		`UPDATE session_blob SET data = (SELECT data FROM session_blob b WHERE b.id IN ` + journal +
			` LIMIT 1) WHERE id IN ` + notJournal,
	} {
		damage(query)
		o := s.do("work", op{Get: "x"})
		if o.value != "1" || o.from != "journal" {
			t.Errorf("%s: %q from %s", query, o.value, o.from)
		}
		holds(t, o.text, "since its stored state was damaged")
	}
	damage(`UPDATE session_blob SET data = x'01'`)
	holds(t, s.bad("work", op{Get: "x"}).text, "session \"work\" can't be resumed", "nor rebuilt",
		"End it (biplane sessions end work)")
	if err := s.x.Sessions().Export(t.Context(), ann, "work", io.Discard, ""); kindOf(err) != tool.Conflict {
		t.Errorf("export: %v", err)
	}
	for _, query := range []string{
		`UPDATE session SET state = x'0102'`, `UPDATE session SET revision = revision + 1`,
		`UPDATE session SET owner = 'local:ann', name = 'stolen'`,
	} {
		for _, name := range []string{"work", "stolen"} {
			if err := s.x.Sessions().End(t.Context(), ann, name); err != nil && kindOf(err) != tool.NotFound {
				t.Errorf("err = %v, want err == nil || kindOf(err) == tool.NotFound", err)
			}
		}
		s.do("work", op{Set: "x=1"})
		damage(query)
		name := "work"
		if strings.Contains(query, "stolen") {
			name = "stolen"
		}
		holds(t, s.bad(name, op{Get: "x"}).text, "was changed, or can't be read", "end it")
	}
	if err := s.x.Sessions().End(t.Context(), ann, "stolen"); err != nil {
		t.Errorf("End: %v", err)
	}
	if n := blobs(t, s); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}
