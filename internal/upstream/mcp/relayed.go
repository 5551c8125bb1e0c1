package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/plaintext"
)

// Limits of what a server asks. A form is flat in the protocol. Tools of a sampling request have
// schemas of their own.
const (
	maxURL           = 2 << 10 // bytes of an address that a person is asked to open
	maxKey           = 128     // bytes of the key of a question
	maxFormDepth     = 16
	maxSamplingDepth = 64
)

// A relayed is a question that was checked.
type relayed struct {
	params json.RawMessage // without hidden characters; nil if there are none
	url    bool            // a person is asked to open an address
	form   bool            // a person is asked to fill a form
	tools  bool            // a model is asked, and may call tools
}

// parseQuestion checks a question. It returns an error for what no client should be asked, such as
// an address that a person should not open.
func (a asking) parseQuestion(key string, q tool.Question) (relayed, error) {
	switch {
	case len(key) > maxKey || !plaintext.IsClean(key):
		return relayed{}, errors.New("its key is too long or has hidden characters")
	case len(q.Params) > q.MaxBytes():
		return relayed{}, errors.New("it is too long")
	case len(q.Params) == 0 || string(q.Params) == "null":
		return relayed{form: q.Method == "elicitation/create"}, nil
	case !isObject(q.Params):
		return relayed{}, errors.New("its params are not an object")
	}
	depth := maxSamplingDepth
	if q.Method == "elicitation/create" {
		depth = maxFormDepth
	}
	if err := checkJSON(q.Params, depth); err != nil {
		return relayed{}, err
	}
	params, err := plaintext.Definition(q.Params)
	if err != nil {
		return relayed{}, err
	}
	fields, err := readFields(params)
	if err != nil {
		return relayed{}, err
	}
	r := relayed{params: params}
	switch q.Method {
	case "elicitation/create":
		err = r.checkElicitation(fields, a.local)
	case "sampling/createMessage":
		r.tools = fields["tools"] != nil || fields["toolChoice"] != nil
		if fields["includeContext"] != nil {
			r.params, err = omitContext(params)
		}
	}
	return r, err
}

// readFields returns the members of an object. It returns an error if two names are equal or differ
// only in case, because the client may not read the one that was checked.
func readFields(raw json.RawMessage) (map[string]json.RawMessage, error) {
	fields, seen := map[string]json.RawMessage{}, map[string]bool{}
	var err error
	walkMembers(trimSpace(raw), func(name string, value json.RawMessage) {
		folded := strings.ToLower(name)
		if seen[folded] {
			err = fmt.Errorf("it has two members %q", cleanLine(name, 60))
		}
		fields[name], seen[folded] = value, true
	})
	return fields, err
}

// omitContext returns the params of a sampling request without includeContext. Biplane is one
// server for the client, so that this context would include the data of other servers.
func omitContext(params json.RawMessage) (json.RawMessage, error) {
	out := []byte("{")
	var err error
	walkMembers(trimSpace(params), func(name string, value json.RawMessage) {
		if name == "includeContext" {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, kerr := tool.Marshal(name)
		if kerr != nil {
			err = kerr
		}
		out = append(append(append(out, key...), ':'), value...)
	})
	return append(out, '}'), err
}

// checkElicitation checks a question to a person. local means that the server is on this machine or
// in a private network.
func (r *relayed) checkElicitation(fields map[string]json.RawMessage, local bool) error {
	mode := "form"
	if fields["mode"] != nil && json.Unmarshal(fields["mode"], &mode) != nil {
		return errors.New("its mode is not a string")
	}
	for name := range fields {
		if lower := strings.ToLower(name); lower != name && (lower == "url" || lower == "mode" || lower == "message") {
			return fmt.Errorf("it has the unknown member %q", name)
		}
	}
	switch {
	case mode == "url" || fields["url"] != nil:
		r.url = true
		var address string
		if json.Unmarshal(fields["url"], &address) != nil || address == "" {
			return errors.New("it has no url")
		}
		return checkURL(address, local)
	case mode != "form":
		return fmt.Errorf("its mode %q is unknown", cleanLine(mode, 60))
	}
	r.form = true
	return nil
}

// isAnswerable reports whether a client with a capability, the value of elicitation, sampling or
// roots, can be asked.
func (r *relayed) isAnswerable(capability json.RawMessage) bool {
	var able struct {
		Form  json.RawMessage `json:"form"`
		URL   json.RawMessage `json:"url"`
		Tools json.RawMessage `json:"tools"`
	}
	if json.Unmarshal(capability, &able) != nil {
		return false
	}
	switch {
	case r.url:
		return able.URL != nil
	case r.form:
		return able.Form != nil || able.URL == nil // {} means forms
	case r.tools:
		return able.Tools != nil
	}
	return true
}

// checkURL returns an error unless text is the address of a web page, written so that a person sees
// where it leads. Only a local server may lead to this machine or to a private network.
func checkURL(text string, local bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURL:
		return errors.New("its url is invalid")
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil:
		return errors.New("its url is not the address of a web page")
	case strings.ContainsFunc(text+u.Host, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }):
		return errors.New("its url has characters that are not ASCII")
	case !local && isPrivateHost(u.Hostname()):
		return errors.New("its url leads to a private address")
	}
	return nil
}

// isPrivateHost reports whether the host of an address is not public, without resolving its name. A
// number that is not a usual IP address counts as private: browsers read 127.1 and 0x7f000001 as
// addresses.
func isPrivateHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return !netaddr.IsPublic(a)
	}
	for _, private := range []string{"localhost", "local", "internal", "home.arpa"} {
		if host == private || strings.HasSuffix(host, "."+private) {
			return true
		}
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last == "" || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x")
}
