package openapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

type rawJSON = json.RawMessage

// An answer is the value that programs receive.
type answer struct {
	Status     int               `json:"status"`
	Retryable  *bool             `json:"retryable,omitempty"`   // of errors
	RetryAfter int               `json:"retry_after,omitempty"` // seconds
	Headers    map[string]string `json:"headers"`
	Body       rawJSON           `json:"body,omitempty"`
	Next       rawJSON           `json:"next,omitempty"` // arguments of the call for the next page
}

// readAnswers sets what an operation accepts, and returns the schema of its answers.
func (r *reader) readAnswers(o *draft) ([]byte, error) {
	answers := o.n.n.getField("responses")
	if answers == nil {
		o.accept = "application/json, */*;q=0.5"
		return answerSchema(nil, nil), nil
	}
	var types, forms []string
	var refs []target
	for _, f := range answers.fields {
		if !strings.HasPrefix(f.name, "2") && f.name != "default" {
			continue
		}
		at, err := r.doc.followRefs(place{o.n.file, f.value})
		if err != nil || at.n == nil {
			continue // if the answer is broken, only its type is missing
		}
		content := at.n.getField("content")
		if content == nil {
			continue
		}
		for _, m := range content.fields {
			if !slices.Contains(types, m.name) {
				types = append(types, m.name)
			}
			if !isJSONType(m.name) || f.name == "default" && len(answers.fields) > 1 {
				continue
			}
			one := r.schemas.convertSchema(place{at.file, m.value.getField("schema")}, false)
			if one.err == nil && len(one.json) <= maxOutput && !slices.Contains(forms, string(one.json)) {
				forms, refs = append(forms, string(one.json)), append(refs, one.refs...)
			}
		}
	}
	o.accept = acceptHeader(types)
	defs, err := r.schemas.collectDefs(refs, false, maxOutput)
	if err != nil {
		return nil, err
	}
	if allJSON := !slices.ContainsFunc(types, func(t string) bool { return !isJSONType(t) }); !allJSON {
		forms = nil
	}
	return answerSchema(forms, defs), nil
}

// answerSchema returns the JSON Schema of an answer whose body has one of the forms.
func answerSchema(forms []string, defs []byte) []byte {
	body := `{}`
	switch {
	case len(forms) == 1:
		body = forms[0]
	case len(forms) > 1:
		body = `{"anyOf":[` + strings.Join(forms, ",") + `]}`
	}
	out := `{"type":"object","properties":{"status":{"type":"integer"},"headers":{"type":"object",` +
		`"additionalProperties":{"type":"string"}},"body":` + body +
		`,"next":{"type":"object","description":"arguments for the next page; missing on the last one"}},` +
		`"required":["status","headers"]`
	if len(forms) > 0 && defs != nil {
		out += `,"$defs":` + string(defs)
	}
	return []byte(out + `}`)
}

// acceptHeader returns the value of Accept: JSON first, then the other media types.
func acceptHeader(types []string) string {
	slices.SortStableFunc(types, func(a, b string) int { return rankType(a) - rankType(b) })
	var out []string
	for i, t := range types {
		if strings.ContainsAny(t, "\r\n,") {
			continue
		}
		if i > 0 {
			t += fmt.Sprintf(";q=0.%d", max(9-i, 1))
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		return "application/json, */*;q=0.5"
	}
	return strings.Join(out, ", ")
}

// A reply is a complete response.
type reply struct {
	status int
	header http.Header
	body   []byte
	url    *url.URL // that answered
}

// toResult converts a response to the result of a call.
func (p *reply) toResult(o *operation, args *node) (*tool.Result, error) {
	a := &answer{Status: p.status, Headers: web.SelectHeaders(p.header)}
	var blocks []rawJSON
	var err error
	if a.Body, blocks, err = p.readBody(); err != nil {
		return nil, err
	}
	if p.status >= 400 {
		return p.toError(o, a)
	}
	a.Next = p.nextArguments(o, args)
	return web.NewResult(a, blocks, false, "")
}

// A blob is a body that is neither JSON nor text.
type blob struct {
	Base64 string `json:"base64"`
	Type   string `json:"content_type"`
	Size   int    `json:"size"`
}

// readBody returns the body as a value; images and audio are content blocks instead.
func (p *reply) readBody() (rawJSON, []rawJSON, error) {
	typ := plainType(p.header.Get("Content-Type"))
	if len(p.body) == 0 {
		return nil, nil, nil
	}
	if isJSONType(typ) {
		if n, err := parseJSON(p.body); err == nil {
			return n.appendJSON(nil), nil, nil
		} else if p.status < 400 {
			e := tool.Errorf(tool.Unavailable, "the server's answer is invalid JSON: %w", err)
			e.Answered = true
			return nil, nil, e
		}
	}
	media, _, _ := strings.Cut(typ, "/")
	if (media == "image" || media == "audio") && !strings.HasSuffix(typ, "+xml") {
		block, err := tool.Marshal(struct {
			Type string `json:"type"`
			Data string `json:"data"`
			Mime string `json:"mimeType"`
		}{media, base64.StdEncoding.EncodeToString(p.body), typ})
		return nil, []rawJSON{block}, err
	}
	if isTextType(typ) && utf8.Valid(p.body) || typ == "" && utf8.Valid(p.body) {
		text, err := tool.Marshal(string(p.body))
		return text, nil, err
	}
	out, err := tool.Marshal(blob{base64.StdEncoding.EncodeToString(p.body), typ, len(p.body)})
	return out, nil, err
}

func isTextType(t string) bool {
	return strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+xml") || strings.HasSuffix(t, "yaml") ||
		isJSONType(t) || slices.Contains([]string{"application/xml", "application/javascript", formType,
		"application/x-ndjson", "application/graphql", "application/sql"}, t)
}

// toError converts an error answer (RFC 9457 problems included) to the result of a failed call.
func (p *reply) toError(o *operation, a *answer) (*tool.Result, error) {
	does := annotateMethod(o.method)
	retry := web.MayRetry(p.status, p.header, does.Repeats())
	a.Retryable, a.RetryAfter = &retry, web.RetrySeconds(p.header, time.Now())
	text := fmt.Sprintf("%s %s answered %d %s", strings.ToUpper(o.method), o.path, p.status, http.StatusText(p.status))
	if said := problemText(a.Body); said != "" {
		text += ": " + said
	}
	switch {
	case a.RetryAfter > 0:
		text += fmt.Sprintf("; retry after %d s", a.RetryAfter)
	case retry:
		text += "; it may be retried"
	}
	return web.NewResult(a, nil, true, text)
}

// problemText returns the message in an error's body: of problem+json, or where APIs commonly have
// it.
func problemText(body rawJSON) string {
	n, err := parseJSON(body)
	if err != nil {
		return ""
	}
	if n.kind == stringKind {
		return web.CleanLine(n.text, 300)
	}
	if e := n.getField("error"); e != nil && e.kind == mapKind {
		n = e
	}
	var parts []string
	for _, name := range []string{"title", "detail", "message", "error_description", "error", "msg"} {
		if s := n.getText(name); s != "" && !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	return web.CleanLine(strings.Join(parts, ": "), 500)
}

// nextArguments returns the arguments of the call for the next page: those of this call, with the
// query that the answer's link to it has. It is nil if there is no such link, or if it leads to
// another operation.
func (p *reply) nextArguments(o *operation, args *node) rawJSON {
	link := nextLink(p.header.Values("Link"))
	if link == "" && isJSONType(p.header.Get("Content-Type")) {
		if n, err := parseJSON(p.body); err == nil {
			link = linkInBody(n)
		}
	}
	u, err := url.Parse(link)
	if link == "" || err != nil || o.name == ownRequest {
		return nil
	}
	u = p.url.ResolveReference(u)
	if !web.SameOrigin(u, p.url) || u.EscapedPath() != p.url.EscapedPath() {
		return nil
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil
	}
	out := newMap()
	for _, f := range args.fields {
		if i := slices.IndexFunc(o.params, func(x *parameter) bool { return x.argument == f.name }); i < 0 ||
			o.params[i].in != "query" || len(q[o.params[i].name]) == 0 {
			out.addField(f.name, f.value)
		}
	}
	changed := false
	for _, x := range o.params {
		values := q[x.name]
		if x.in != "query" || len(values) == 0 {
			continue
		}
		v := p.argumentOf(x, args.getField(x.argument), values)
		changed = changed || args.getField(x.argument) == nil ||
			string(v.appendJSON(nil)) != string(args.getField(x.argument).appendJSON(nil))
		out.addField(x.argument, v)
	}
	if !changed {
		return nil // the link has no parameter that the operation knows
	}
	return out.appendJSON(nil)
}

// argumentOf returns the argument that is encoded as values in a query. If the call's own argument
// has this encoding, it is returned unchanged.
func (p *reply) argumentOf(x *parameter, before *node, values []string) *node {
	if before != nil {
		var same []string
		for _, one := range x.formatQuery(before, func(s string) string { return s }) {
			same = append(same, one.value)
		}
		if slices.Equal(same, values) {
			return before
		}
	}
	one := func(s string) *node {
		if x.isNumber(before, s) {
			return &node{kind: numberKind, text: s}
		}
		return newText(s)
	}
	if before != nil && before.kind == listKind || len(values) > 1 {
		out := &node{kind: listKind}
		for _, s := range values {
			out.list = append(out.list, one(s))
		}
		return out
	}
	return one(values[0])
}

// isNumber reports whether the argument is written as a number.
func (p *parameter) isNumber(before *node, s string) bool {
	n, err := parseJSON([]byte(s))
	if err != nil || n.kind != numberKind {
		return false
	}
	if before != nil {
		return before.kind == numberKind
	}
	return p.numeric
}

// nextLink returns the target of the link with rel="next" (RFC 8288).
func nextLink(values []string) string {
	for _, v := range values {
		for v != "" {
			start, end := strings.IndexByte(v, '<'), strings.IndexByte(v, '>')
			if start < 0 || end < start {
				break
			}
			href, rest := v[start+1:end], v[end+1:]
			next := strings.IndexByte(rest, '<')
			if next < 0 {
				next = len(rest)
			}
			params := strings.ToLower(rest[:next])
			v = rest[next:]
			for part := range strings.SplitSeq(strings.TrimRight(params, ", "), ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
				if strings.TrimSpace(name) == "rel" &&
					slices.Contains(strings.Fields(strings.Trim(strings.TrimSpace(value), `"`)), "next") {
					return href
				}
			}
		}
	}
	return ""
}

// linkInBody returns the address of the next page that a body has.
func linkInBody(n *node) string {
	for _, name := range []string{"next", "@odata.nextLink", "next_url", "nextLink"} {
		if s := n.getText(name); strings.HasPrefix(s, "http") || strings.HasPrefix(s, "/") || strings.HasPrefix(s,
			"?") {
			return s
		}
	}
	for _, name := range []string{"links", "_links", "paging", "pagination"} {
		next := n.getField(name).getField("next")
		if next == nil {
			continue
		}
		if next.kind == stringKind {
			return next.text
		}
		return next.getText("href")
	}
	return ""
}
