package httpapi

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Parameters of each list: see writeList and setNextPage.
const (
	limitParameter  = "limit"
	cursorParameter = "cursor"
)

// parseLimit returns the limit of a page, or other if the request has none.
func parseLimit(q url.Values, other int) (int, error) {
	value := q.Get(limitParameter)
	if value == "" {
		return other, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > api.MaxPage {
		return 0, tool.Errorf(tool.Invalid, "limit %q must be a number from 1 to %d", text.Cut(value, 80), api.MaxPage)
	}
	return n, nil
}

// setNextPage tells the client the address of the next page (RFC 8288).
func setNextPage(w http.ResponseWriter, r *http.Request, cursor string) {
	q := r.URL.Query()
	q.Del("before")
	q.Set(cursorParameter, cursor)
	w.Header().Set("Link", "<"+r.URL.EscapedPath()+"?"+q.Encode()+`>; rel="next"`)
}

// writeList answers with a list or, if the request has a limit or a cursor, with a page of it. key
// returns what identifies an item. The cursor has the key and the index of the last item of the
// page. If that item has gone, the next page begins at its index.
func writeList[T any](w http.ResponseWriter, r *http.Request, all []T, key func(*T) string) {
	q := r.URL.Query()
	limit, err := parseLimit(q, len(all))
	from := 0
	if cursor := q.Get(cursorParameter); err == nil && cursor != "" {
		from, err = findCursor(cursor, all, key)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	page := all[from:min(from+limit, len(all))]
	if end := from + len(page); end < len(all) {
		setNextPage(w, r, base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(end-1)+" "+key(&all[end-1]))))
	}
	writeJSON(w, http.StatusOK, append([]T{}, page...))
}

// findCursor returns the index of the item after the one that a cursor names.
func findCursor[T any](cursor string, all []T, key func(*T) string) (int, error) {
	plain, err := base64.RawURLEncoding.DecodeString(cursor)
	place, last, ok := strings.Cut(string(plain), " ")
	at, numErr := strconv.Atoi(place)
	if err != nil || numErr != nil || !ok || at < 0 {
		return 0, tool.Errorf(tool.Invalid, "the cursor is invalid: omit it to list from the beginning")
	}
	if i := slices.IndexFunc(all, func(v T) bool { return key(&v) == last }); i >= 0 {
		return i + 1, nil
	}
	return min(at, len(all)), nil
}
