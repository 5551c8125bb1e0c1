package registry

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxServers    = 5000
	maxSignatures = 16
	// signedAs precedes what is signed, so that a signature is valid for nothing else.
	signedAs = "biplane approved servers 1\n"
)

// A List is a list of approved servers.
type List struct {
	Name    string    `json:"list"`
	Version int64     `json:"version"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Servers []Entry   `json:"servers"`
	// APIs are the addresses of approved upstreams that are not MCP servers.
	APIs []string `json:"apis,omitempty"`
	// Local approves upstreams without an address: tool folders.
	Local bool `json:"local,omitempty"`
}

// An Entry approves one server.
type Entry struct {
	Server Server `json:"server"`
	// Versions is a range of versions of the server's packages; empty: exactly the stated versions.
	Versions string `json:"versions,omitempty"`
	// Arguments says which arguments a package may have: "listed" (the default) or "any".
	Arguments string `json:"arguments,omitempty"`
	// Commands are other commands that run the server, each with all its arguments.
	Commands [][]string `json:"commands,omitempty"`
	// Environment names further variables that the configuration may set.
	Environment []string `json:"environment,omitempty"`
}

// A document is the text of a list.
type document struct {
	signed     []byte // in canonical form, without the signatures
	signatures []signature
}

type signature struct {
	Key       string `json:"key"`
	Signature string `json:"signature"`
}

// parseDocument separates the signatures from what they sign. What is signed is decoded from its
// canonical form only, so that there is one reading of it.
func parseDocument(raw []byte) (*document, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(bytes.TrimPrefix(raw, []byte("\ufeff")), &members); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	d := &document{}
	if raw := members["signatures"]; raw != nil {
		if err := json.Unmarshal(raw, &d.signatures); err != nil {
			return nil, fmt.Errorf("its signatures are malformed: %w", err)
		}
	}
	if len(d.signatures) > maxSignatures {
		return nil, fmt.Errorf("it has more than %d signatures", maxSignatures)
	}
	delete(members, "signatures")
	plain, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	d.signed = tool.CanonicalJSON(plain)
	return d, nil
}

// verifySignature returns the key whose signature the document has.
func (d *document) verifySignature(keys []ed25519.PublicKey) (ed25519.PublicKey, error) {
	if len(d.signatures) == 0 {
		return nil, errors.New("it is not signed: `biplane registry sign` signs it")
	}
	message := append([]byte(signedAs), d.signed...)
	byKnown := false
	for _, s := range d.signatures {
		raw, err := base64.StdEncoding.DecodeString(s.Signature)
		if err != nil || len(raw) != ed25519.SignatureSize {
			continue
		}
		for _, k := range keys {
			byKnown = byKnown || s.Key == FormatKey(k)
			if ed25519.Verify(k, message, raw) {
				return k, nil
			}
		}
	}
	if byKnown {
		return nil, errors.New("its signature is invalid: it was changed after it was signed")
	}
	return nil, errors.New("none of its signatures is by a key of the configuration (registry.key)")
}

// decodeList decodes and checks what is signed.
func (d *document) decodeList() (*List, error) {
	list := &List{}
	dec := json.NewDecoder(bytes.NewReader(d.signed))
	dec.DisallowUnknownFields() // an unknown restriction must not be ignored
	if err := dec.Decode(list); err != nil {
		return nil, fmt.Errorf("it is malformed: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("it is malformed: there is text behind the object")
	}
	return list, list.checkEntries()
}

// checkEntries returns the problems of the list.
func (l *List) checkEntries() error {
	switch {
	case l.Name == "" || len(l.Name) > 100 || cleanText(l.Name, 100) != l.Name:
		return errors.New(`it needs a name of at most 100 characters: "list": "our-tools"`)
	case l.Version < 1:
		return errors.New(`it needs a version, which increases with every change: "version": 1`)
	case len(l.Servers) > maxServers:
		return fmt.Errorf("it has more than %d servers", maxServers)
	}
	seen := map[string]bool{}
	for i := range l.Servers {
		e := &l.Servers[i]
		if err := e.checkEntry(); err != nil {
			return fmt.Errorf("servers[%d]: %w", i, err)
		}
		if key := strings.ToLower(e.Server.Name); seen[key] {
			return fmt.Errorf("servers[%d]: %s is listed twice", i, e.Server.Name)
		} else {
			seen[key] = true
		}
	}
	for _, a := range l.APIs {
		if _, err := normalizeAddress(a); err != nil {
			return fmt.Errorf("apis: %q: %w", cleanText(a, 100), err)
		}
	}
	return nil
}

func (e *Entry) checkEntry() error {
	if err := e.Server.checkServer(); err != nil {
		return err
	}
	if e.Arguments != "" && e.Arguments != "listed" && e.Arguments != "any" {
		return fmt.Errorf(`arguments is "listed" or "any", not %q`, cleanText(e.Arguments, 40))
	}
	if e.Versions != "" {
		if _, err := parseRange(e.Versions); err != nil {
			return err
		}
	}
	for _, c := range e.Commands {
		if len(c) == 0 || c[0] == "" {
			return errors.New("a command is empty")
		}
	}
	return nil
}

// FindServer returns the entry with a name, which may be only the part after the slash.
func (l *List) FindServer(name string) (*Entry, error) {
	var found []*Entry
	for i := range l.Servers {
		e := &l.Servers[i]
		if e.Server.Name == name {
			return e, nil
		}
		if strings.EqualFold(e.Server.ShortName(), name) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, tool.Errorf(tool.NotFound, "%q is not on the list of approved servers %s: `biplane registry list` "+
			"shows which are", cleanText(name, 100), l.Name)
	}
	var names []string
	for _, e := range found {
		names = append(names, e.Server.Name)
	}
	return nil, tool.Errorf(tool.Invalid, "%q is the name of several servers: name one of %s", cleanText(name, 100),
		strings.Join(names, ", "))
}

// SignText checks the text of a list, and returns it with a signature. Signatures of other keys are
// kept if they are still valid.
func SignText(raw []byte, key ed25519.PrivateKey) ([]byte, *List, error) {
	d, err := parseDocument(raw)
	if err != nil {
		return nil, nil, err
	}
	list, err := d.decodeList()
	if err != nil {
		return nil, nil, err
	}
	message := append([]byte(signedAs), d.signed...)
	own := FormatKey(key.Public().(ed25519.PublicKey))
	all := []signature{}
	for _, s := range d.signatures {
		other, err := ParseKey(s.Key)
		raw, decodeErr := base64.StdEncoding.DecodeString(s.Signature)
		if err == nil && decodeErr == nil && s.Key != own && ed25519.Verify(other, message, raw) {
			all = append(all, s)
		}
	}
	all = append(all, signature{own, base64.StdEncoding.EncodeToString(ed25519.Sign(key, message))})
	text, err := appendSignatures(raw, all)
	return text, list, err
}

// appendSignatures returns the text of a list with signatures as its last member. What is before
// them stays as it is, apart from the indentation.
func appendSignatures(raw []byte, all []signature) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	if _, err := dec.Token(); err != nil { // the brace
		return nil, err
	}
	out := []byte("{")
	add := func(name string, value []byte) error {
		key, err := tool.Marshal(name)
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		if name == "signatures" {
			continue
		}
		if err := add(name.(string), value); err != nil {
			return nil, err
		}
	}
	value, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	if err := add("signatures", value); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, append(out, '}'), "", "  "); err != nil {
		return nil, err
	}
	text.WriteByte('\n')
	return text.Bytes(), nil
}

// verifyText checks the signature of a list, and decodes it.
func (s Source) verifyText(raw []byte) (*keptList, error) {
	d, err := parseDocument(raw)
	if err != nil {
		return nil, err
	}
	signer, err := d.verifySignature(s.Keys)
	if err != nil {
		return nil, err
	}
	list, err := d.decodeList()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(d.signed)
	return &keptList{raw: raw, digest: hex.EncodeToString(sum[:]),
		accepted: &Accepted{List: list, Place: s.Place, Signer: FormatKey(signer)}}, nil
}

// cleanText returns a text on one line of at most n characters, without hidden ones.
func cleanText(s string, n int) string {
	s = strings.Join(strings.Fields(tool.VisibleLine(strings.ToValidUTF8(s, "?"))), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// ApproveServer adds an entry to the text of a list, or replaces the one with the same name, and
// raises the version. The result is not signed. An empty text becomes a list with the given name.
func ApproveServer(raw []byte, name string, e Entry) ([]byte, *List, error) {
	list := &List{Name: name}
	if len(bytes.TrimSpace(raw)) > 0 {
		d, err := parseDocument(raw)
		if err != nil {
			return nil, nil, err
		}
		if list, err = d.decodeList(); err != nil {
			return nil, nil, err
		}
	}
	at := slices.IndexFunc(list.Servers, func(o Entry) bool { return strings.EqualFold(o.Server.Name, e.Server.Name) })
	if at < 0 {
		list.Servers = append(list.Servers, e)
	} else {
		list.Servers[at] = e
	}
	list.Version++
	if err := list.checkEntries(); err != nil {
		return nil, nil, err
	}
	text, err := tool.Marshal(list)
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, text, "", "  ")
	out.WriteByte('\n')
	return out.Bytes(), list, err
}
