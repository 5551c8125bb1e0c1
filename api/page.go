package api

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// MaxPage is the maximum number of items in a page of a list.
const MaxPage = 1000

// pageOf is the key of a *page in a context.
type pageOf struct{}

// A page is the part of a list that a request asks for.
type page struct {
	limit  int
	cursor string // empty: the first page
	next   string // cursor of the next page; empty: this is the last one
}

// ListPages calls list for one page of at most limit items after the other, until the last one.
// list is a method of a Client that returns a list:
//
//	for tools, err := range api.ListPages(ctx, 100, client.Tools) {
func ListPages[T any](ctx context.Context, limit int, list func(context.Context) ([]T, error)) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		p := &page{limit: limit}
		for {
			all, err := list(context.WithValue(ctx, pageOf{}, p))
			if !yield(all, err) || err != nil || p.next == "" {
				return
			}
			p.cursor, p.next = p.next, ""
		}
	}
}

// addTo adds the page to the query of an address.
func (p *page) addTo(u *url.URL) {
	q := u.Query()
	q.Set("limit", strconv.Itoa(p.limit))
	if p.cursor != "" {
		q.Set("cursor", p.cursor)
	}
	u.RawQuery = q.Encode()
}

// readNext reads the cursor of the next page from a response.
func (p *page) readNext(resp *http.Response) {
	address, rest, ok := strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
	if !ok || !strings.Contains(rest, `rel="next"`) {
		return
	}
	if u, err := url.Parse(address); err == nil {
		p.next = u.Query().Get("cursor")
	}
}
