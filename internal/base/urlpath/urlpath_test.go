package urlpath_test

import (
	"net/url"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/urlpath"
)

func TestCanonicalizePath(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"https://h", "https://h"},
		{"https://h/", "https://h/"},
		{"https://h/a/b?x=../y", "https://h/a/b?x=../y"},
		{"https://h/a/../b", "https://h/b"},
		{"https://h/../../b", "https://h/b"},
		{"https://h/a/./b/..", "https://h/a/"},
		{"https://h/a/%2e%2E/b", "https://h/b"},
		{"https://h/%61%2d%7e", "https://h/a-~"},
		{"https://h/@scope%2fname", "https://h/@scope%2Fname"},
		{"https://h/a//b", "https://h/a//b"},
		{"https://h/a b", "https://h/a%20b"},
		{"https://h/...", "https://h/..."},
		{"https://h/.git/config", "https://h/.git/config"},
		{"https://h/a%2f..%2fb", ""},
		{"https://h/a%5c..%5cb", ""},
		{"https://h/a/..;x/b", ""},
		{"https://h/%252e%252e/b", ""},
		{"https://h/%25252e%25252e/b", ""},
	} {
		u, err := url.Parse(c.in)
		if err != nil {
			t.Fatalf("url.Parse(%q): %v", c.in, err)
		}
		err = urlpath.CanonicalizePath(u)
		if got := u.String(); err == nil && got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %s, %v, want %q", c.in, got, err, c.want)
		}
	}
}

// FuzzCanonicalizePath checks that a canonical path stays as it is.
func FuzzCanonicalizePath(f *testing.F) {
	for _, s := range []string{"/a/../b", "/%2e/%41", "/a%2Fb", "//x", "/%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.Parse("https://h/" + path)
		if err != nil || urlpath.CanonicalizePath(u) != nil {
			return
		}
		again, err := url.Parse(u.String())
		if err != nil {
			t.Fatalf("url.Parse(%q): %v", u, err)
		}
		if err := urlpath.CanonicalizePath(again); err != nil || again.String() != u.String() {
			t.Errorf("%q became %q, then %q, %v", path, u, again, err)
		}
	})
}
