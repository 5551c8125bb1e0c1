package origin

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeFile(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	return path
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	names := []string{"A", "B", "NONE"}
	want := map[string]string{"A": "value of a", "B": "12"}
	for _, text := range []string{"A: value of a\nB: \"12\"\nC: other", `{"A":"value of a","B":"12"}`} {
		f := File{writeFile(t, filepath.Join(dir, "secrets.yaml"), text, 0o600)}
		if got, err := f.ReadSecrets(t.Context(), names); err != nil || !maps.Equal(got, want) {
			t.Errorf("read %s: %v, %v, want %v", text, got, err, want)
		}
	}
	folder := filepath.Join(dir, "mounted")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	writeFile(t, filepath.Join(folder, "A"), "value of a\n", 0o644)
	writeFile(t, filepath.Join(folder, "B"), "12\r\n", 0o644)
	got, err := File{folder}.ReadSecrets(t.Context(), append(names, "../secrets.yaml"))
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("read a folder: %v, %v, want %v", got, err, want)
	}
}

// Errors don't contain what a file has.
func TestFileErrors(t *testing.T) {
	dir := t.TempDir()
	for name, f := range map[string]string{
		"accessible to other users": writeFile(t, filepath.Join(dir, "open.yaml"), "A: hidden1", 0o644),
		"is not a map":              writeFile(t, filepath.Join(dir, "list.yaml"), "[hidden1, {]", 0o600),
		"more than":                 writeFile(t, filepath.Join(dir, "large"), strings.Repeat("hidden1", 1<<18), 0o600),
		"no such file":              filepath.Join(dir, "none"),
		"not a regular file":        "/dev/zero",
	} {
		if name == "not a regular file" { // other users may read it, so it is in a folder with a link to it
			f = dir + "/zero"
			if err := os.Mkdir(f, 0o700); err != nil {
				t.Fatalf("os.Mkdir: %v", err)
			}
			if err := os.Symlink("/dev/zero", f+"/A"); err != nil {
				t.Skipf("os.Symlink: %v", err)
			}
		}
		_, err := File{f}.ReadSecrets(t.Context(), []string{"A"})
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hidden1") {
			t.Errorf("read %s: %v, want an error with %q and no value", f, err, name)
		}
	}
}

func TestVault(t *testing.T) {
	var seen *http.Request
	status, body := http.StatusOK, `{"data":{"data":{"A":"value of a","N":5},"metadata":{"version":3}}}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer s.Close()
	v := Vault{Address: s.URL, Path: "team/apps/biplane", Token: "hvs.token", Namespace: "ns"}
	got, err := v.ReadSecrets(t.Context(), []string{"A", "NONE"})
	if err != nil || !maps.Equal(got, map[string]string{"A": "value of a"}) {
		t.Fatalf("ReadSecrets: %v, %v, want A", got, err)
	}
	if seen.Method != "GET" || seen.URL.Path != "/v1/team/data/apps/biplane" ||
		seen.Header.Get("X-Vault-Token") != "hvs.token" || seen.Header.Get("X-Vault-Namespace") != "ns" {
		t.Errorf("sent %s %s with %v", seen.Method, seen.URL.Path, seen.Header)
	}
	if _, err := v.ReadSecrets(t.Context(), []string{"N"}); err == nil ||
		!strings.Contains(err.Error(), "N is not a text") {
		t.Errorf("read a number: %v, want an error", err)
	}
	for code, want := range map[int]string{403: "refused the token for team/apps/biplane", 500: "status 500",
		307: "status 307"} {
		status = code
		_, err := v.ReadSecrets(t.Context(), []string{"A"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hvs.") {
			t.Errorf("status %d: %v, want %q", code, err, want)
		}
	}
	status = 404
	if got, err := v.ReadSecrets(t.Context(), []string{"A"}); err != nil || len(got) != 0 {
		t.Errorf("status 404: %v, %v, want nothing", got, err)
	}
	status, body = 200, strings.Repeat("x", vaultAnswer+1)
	if _, err := v.ReadSecrets(t.Context(), []string{"A"}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a large answer: %v, want an error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.ReadSecrets(ctx, []string{"A"}); err == nil {
		t.Error("a canceled read succeeded")
	}
}
