package httpapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/tool"
)

// sessions holds one session, "work", with some files.
type sessions struct {
	files map[string]string
}

func newSessions() *sessions {
	return &sessions{files: map[string]string{"workspace/a": "text", "workspace/bin": "\x00\xff"}}
}

func (s *sessions) info() live.Info {
	return live.Info{Name: "work", State: "hot", Created: time.Unix(1, 0).UTC(), Files: len(s.files)}
}

func (s *sessions) List(context.Context, tool.Principal) ([]live.Info, error) {
	return []live.Info{s.info()}, nil
}

func (s *sessions) Get(_ context.Context, _ tool.Principal, name string) (*live.Info, error) {
	if name != "work" {
		return nil, tool.Errorf(tool.NotFound, "no session %q", name)
	}
	i := s.info()
	return &i, nil
}

func (s *sessions) End(ctx context.Context, p tool.Principal, name string) error {
	_, err := s.Get(ctx, p, name)
	return err
}

func (s *sessions) Fork(ctx context.Context, p tool.Principal, from, to string) (*live.Info, error) {
	i, err := s.Get(ctx, p, from)
	if err == nil {
		i.Name = to
	}
	return i, err
}

func (s *sessions) SuspendSession(ctx context.Context, p tool.Principal, name string) (*live.Info, error) {
	return s.Get(ctx, p, name)
}

func (s *sessions) ResumeSession(ctx context.Context, p tool.Principal, name string) (*live.Info, error) {
	return s.Get(ctx, p, name)
}

func (s *sessions) Export(ctx context.Context, p tool.Principal, name string, w io.Writer, passphrase string) error {
	if _, err := s.Get(ctx, p, name); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "sealed with "+passphrase); err != nil {
		return err
	}
	if passphrase == "breaks" {
		return tool.Errorf(tool.Internal, "the disk is gone")
	}
	return nil
}

func (s *sessions) Import(_ context.Context, _ tool.Principal, name string, r io.Reader, passphrase string) (*live.Info,
	error) {
	text, err := io.ReadAll(r)
	if err != nil || string(text) != "sealed with "+passphrase {
		return nil, tool.Errorf(tool.Invalid, "the file was changed, or has another passphrase")
	}
	i := s.info()
	i.Name = name
	return &i, nil
}

func (s *sessions) Do(_ context.Context, _ tool.Principal, _ string, op sandbox.File) (json.RawMessage, error) {
	switch op.Op {
	case "read":
		text, ok := s.files[op.Path]
		if !ok {
			return nil, tool.Errorf(tool.NotFound, "ENOENT: no such file, open '%s'", op.Path)
		}
		return json.Marshal([]byte(text))
	case "write":
		b, err := base64.StdEncoding.DecodeString(op.Data)
		s.files[op.Path] = string(b)
		return nil, err
	case "list":
		return json.RawMessage(`[{"name":"a","dir":false}]`), nil
	case "stat":
		return json.RawMessage(`{"dir":false,"size":4,"mtime":5,"readonly":false}`), nil
	}
	return nil, nil
}

// skills holds one skill.
type skills struct{ shared bool }

func (s *skills) skill() skill.Info {
	return skill.Info{Name: "report.ts", Owner: "local:me", Shared: s.shared, Modified: time.Unix(1, 0).UTC()}
}

func (s *skills) List(context.Context, tool.Principal) ([]skill.Info, error) {
	return []skill.Info{s.skill()}, nil
}

func (s *skills) Get(_ context.Context, _ tool.Principal, name string) (*skill.Info, error) {
	if name != "report.ts" {
		return nil, tool.Errorf(tool.NotFound, "no skill %q", name)
	}
	k := s.skill()
	k.Source = "export {}"
	return &k, nil
}

func (s *skills) Share(_ context.Context, _ tool.Principal, _ string, shared bool) error {
	s.shared = shared
	return nil
}

func (s *skills) Remove(ctx context.Context, p tool.Principal, name string) error {
	_, err := s.Get(ctx, p, name)
	return err
}

func TestSessionRoutes(t *testing.T) {
	for _, tt := range []struct {
		method, path, body, header string
		status                     int
		want                       string
	}{
		{"GET", "/sessions", "", "", 200, `[{"name":"work"`},
		{"GET", "/sessions/work", "", "", 200, `"state":"hot"`},
		{"GET", "/sessions/other", "", "", 404, `no session`},
		{"DELETE", "/sessions/work", "", "", 200, `{}`},
		{"DELETE", "/sessions/work", "", "Origin: https://evil.example", 403, `not accepted`},
		{"POST", "/sessions/work/fork", `{"to":"copy"}`, "", 201, `"name":"copy"`},
		{"POST", "/sessions/work/fork", `{"too":"copy"}`, "", 400, `unknown field`},
		{"POST", "/sessions/work/export", `{"passphrase":"x"}`, "", 200, `sealed with x`},
		{"POST", "/sessions/other/export", `{}`, "", 404, `no session`},
		{"PUT", "/sessions/new", "sealed with ", "Content-Type: application/octet-stream", 201, `"name":"new"`},
		{"PUT", "/sessions/new", "sealed with é", "Biplane-Passphrase: w6k=", 201, `"name":"new"`},
		{"PUT", "/sessions/new", "sealed with x", "Biplane-Passphrase: eQ==", 400, `passphrase`},
		{"PUT", "/sessions/new", "", "Biplane-Passphrase: %", 400, `not base64`},
		{"PUT", "/sessions/new", "", "Content-Type: text/plain", 400, `Content-Type`},
		{"PUT", "/sessions/new", "", "Origin: https://evil.example", 403, `not accepted`},
		{"GET", "/sessions/work/files?path=workspace/bin", "", "", 200, "\x00\xff"},
		{"GET", "/sessions/work/files?path=nope", "", "", 404, "ENOENT"},
		{"PUT", "/sessions/work/files?path=workspace/b", "more", "", 200, "{}"},
		{"PUT", "/sessions/work/files?path=workspace/b", strings.Repeat("x", 20<<20+1), "", 429,
			"the file is larger than 20 MiB"},
		{"POST", "/sessions/work/files", `{"op":"list","path":"."}`, "", 200, `"name":"a"`},
		{"POST", "/sessions/work/files", `{"op":"mkdir","path":"x"}`, "", 200, `{}`},
		{"POST", "/sessions/work/files", `{"op":"read","path":"x"}`, "", 400, `GET reads`},
		{"GET", "/skills", "", "", 200, `"name":"report.ts"`},
		{"GET", "/skills/report.ts", "", "", 200, `"source":"export {}"`},
		{"DELETE", "/skills/other.ts", "", "", 404, `no skill`},
		{"POST", "/skills/report.ts/share", `{}`, "", 403, `requires sign-in`}, // by a person, over the socket
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, api.Prefix+tt.path, strings.NewReader(tt.body))
			r.Host = "127.0.0.1"
			r.Header.Set("Content-Type", "application/json")
			if tt.method == "PUT" {
				r.Header.Set("Content-Type", "application/octet-stream")
			}
			if k, v, ok := strings.Cut(tt.header, ": "); ok {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			server(t, nil).Loopback().ServeHTTP(w, r)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%d %s, want %d %q", w.Code, short(w.Body.String()), tt.status, tt.want)
			}
		})
	}
}

func short(s string) string { return s[:min(len(s), 300)] }

// TestSessionClient uses the routes with the client of package api, over a real connection.
func TestSessionClient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	h := httptest.NewUnstartedServer(server(t, nil).Socket())
	h.Listener.Close()
	h.Listener = l
	h.Start()
	defer h.Close()
	ctx := t.Context()
	c := &api.Client{Base: h.URL}
	all, err := c.Sessions().List(ctx)
	if err != nil || len(all) != 1 || all[0].Name != "work" || !all[0].Created.Equal(time.Unix(1, 0)) {
		t.Errorf("all = %v, err = %v, want err == nil && len(all) == 1 && all[0].Name == \"work\" && "+
			"all[0].Created.Equal(time.Unix(1, 0))", all, err)
	}
	if s, err := c.Sessions().Fork(ctx, "work", "copy"); err != nil || s.Name != "copy" {
		t.Errorf(`s = %v, err = %v, want err == nil && s.Name == "copy"`, s, err)
	}
	var file strings.Builder
	if err := c.Sessions().Export(ctx, "work", "pässword\n", &file); err != nil {
		t.Errorf("ExportSession: %v", err)
	}
	if s, err := c.Sessions().Import(ctx, "again", "pässword\n", strings.NewReader(file.String())); err != nil ||
		s.Name != "again" {
		t.Errorf(`s = %v, err = %v, want err == nil && s.Name == "again"`, s, err)
	}
	if err := c.Sessions().Export(ctx, "work", "breaks", io.Discard); kind(err) != api.Unavailable {
		t.Errorf("an export that broke off: %v", err)
	}
	if _, err := c.Sessions().Get(ctx, "a/../b"); kind(err) != api.NotFound {
		t.Errorf("err = %v, want kind(err) == api.NotFound", err)
	}
	if err := c.Sessions().WriteFile(ctx, "work", "workspace/ü &?#", strings.NewReader("\x00bytes")); err != nil {
		t.Errorf("WriteFile: %v", err)
	}
	var got strings.Builder
	if err := c.Sessions().ReadFile(ctx, "work", "workspace/ü &?#", &got); err != nil || got.String() != "\x00bytes" {
		t.Errorf(`got.String() = %q, err = %v, want err == nil && got.String() == "\x00bytes"`, got.String(), err)
	}
	if i, err := c.Sessions().StatFile(ctx, "work", "x"); err != nil || i.Size != 4 || i.MTime != 5 {
		t.Errorf("i = %v, err = %v, want err == nil && i.Size == 4 && i.MTime == 5", i, err)
	}
	if items, err := c.Sessions().ListFiles(ctx, "work", "x"); err != nil || !slices.Equal(items,
		[]api.DirEntry{{Name: "a"}}) {
		t.Errorf("items = %v, err = %v, want err == nil && slices.Equal(items, []api.DirEntry{{Name: "+
			"\"a\"}})", items, err)
	}
	if err := c.Sessions().ChangeFile(ctx, "work", api.FileOp{Op: "rm", Path: "x"}); err != nil {
		t.Errorf("ChangeFile: %v", err)
	}
	if err := c.Skills().Share(ctx, "report.ts", true); err != nil {
		t.Errorf("ShareSkill: %v", err)
	}
	if k, err := c.Skills().Get(ctx, "report.ts"); err != nil || !k.Shared || k.Source == "" {
		t.Errorf(`k = %v, err = %v, want err == nil && k.Shared && k.Source != ""`, k, err)
	}
	if err := c.Skills().Remove(ctx, "report.ts"); err != nil {
		t.Errorf("RemoveSkill: %v", err)
	}
	if err := c.Sessions().End(ctx, "other"); kind(err) != api.NotFound {
		t.Errorf("err = %v, want kind(err) == api.NotFound", err)
	}
}

func kind(err error) string {
	if e, ok := err.(*api.Error); ok {
		return e.Kind
	}
	return fmt.Sprint(err)
}
