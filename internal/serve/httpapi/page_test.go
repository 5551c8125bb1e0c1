package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// readPage returns a page of a list of texts, and the address of the next one.
func readPage(t *testing.T, address string, all []string) (page []string, next string, status int) {
	t.Helper()
	w := httptest.NewRecorder()
	writeList(w, httptest.NewRequest(http.MethodGet, address, nil), all, func(s *string) string { return *s })
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page == nil {
			t.Fatalf("%s: %s, %v, want a list", address, w.Body, err)
		}
	}
	if link := w.Header().Get("Link"); link != "" {
		var ok bool
		if next, ok = strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`); !ok {
			t.Fatalf("%s: the header Link is %s", address, link)
		}
	}
	return page, next, w.Code
}

// TestPages reads a list in pages. Each item comes once, also if others are added or removed
// meanwhile.
func TestPages(t *testing.T) {
	all := []string{"a", "b", "c d", "e", "f"}
	if page, next, _ := readPage(t, "/list", all); !slices.Equal(page, all) || next != "" {
		t.Errorf("without parameters: %q, next %s, want all", page, next)
	}
	if page, next, _ := readPage(t, "/list", nil); len(page) > 0 || next != "" {
		t.Errorf("an empty list: %q, next %s", page, next)
	}
	for limit, want := range map[string]int{"1": 5, "2": 3, "4": 2, "5": 1, "1000": 1} {
		var got []string
		pages := 0
		for next := "/list?other=x&limit=" + limit; next != ""; pages++ {
			var page []string
			page, next, _ = readPage(t, next, all)
			got = append(got, page...)
			if u, err := url.Parse(next); err != nil || next != "" && u.Query().Get("other") != "x" {
				t.Errorf("the next page is %s, %v, want the other parameters kept", next, err)
			}
		}
		if !slices.Equal(got, all) || pages != want {
			t.Errorf("limit %s: %q in %d pages, want all in %d", limit, got, pages, want)
		}
	}
	_, next, _ := readPage(t, "/list?limit=2", all)
	if page, _, _ := readPage(t, next, []string{"0", "a", "b", "c d", "e"}); !slices.Equal(page, []string{"c d", "e"}) {
		t.Errorf("after an insertion: %q, want the two items after b", page)
	}
	if page, _, _ := readPage(t, next, []string{"a", "c d", "e", "f"}); !slices.Equal(page, []string{"c d", "e"}) {
		t.Errorf("after the removal of the last item: %q, want the two items after it", page)
	}
	for _, wrong := range []string{"limit=0", "limit=1001", "limit=x", "cursor=%21", "cursor=AAAA", "cursor=LTEgYQ"} {
		if _, _, status := readPage(t, "/list?"+wrong, all); status != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", wrong, status)
		}
	}
}

// TestListsHavePages checks that each route that returns a list has the parameters of pages.
func TestListsHavePages(t *testing.T) {
	s := New(Config{})
	t.Cleanup(func() { s.Close() })
	doc := loadDocument(t, s)
	n := 0
	for pattern, o := range operations.Get() {
		if !isList(pattern, &o) {
			continue
		}
		n++
		_, path, _ := strings.Cut(pattern, " ")
		op := doc.Paths.Value("/api/v1" + path).Get
		for _, name := range []string{"limit", "cursor"} {
			if op.Parameters.GetByInAndName("query", name) == nil {
				t.Errorf("%s has no parameter %s", pattern, name)
			}
		}
	}
	if n < 12 {
		t.Errorf("%d lists were found, want at least 12", n)
	}
}
