package audit

import (
	"strconv"
	"strings"
)

// A decoding is memory for a decoded leaf.
type decoding struct {
	content
	begun                    int64
	arguments, error, result bytesOf
}

// DecodeText decodes a leaf for its readers, so that each of them needn't. text is the leaf's Data.
// The result is in the memory of another leaf, until that is passed again. DecodeText does nothing
// if the leaf has escapes or isn't what Biplane writes.
func (l *Leaf) DecodeText(text string, memory *Leaf) {
	if memory.memory == nil {
		memory.memory = &decoding{}
	}
	if c, ok := memory.memory.decodePlain(l.Data, text); ok && c.checkForm() == nil {
		l.decoded = c
	}
}

// EachMember calls f with the members by which a leaf is found, if DecodeText has decoded it. It
// returns the numbers among them. begun is 0 if it is missing.
func (l *Leaf) EachMember(f func(name, value string)) (seq, begun int64, ok bool) {
	c := l.decoded
	if c == nil {
		return 0, 0, false
	}
	for _, m := range [...]member{{"effect", c.Effect}, {"execution", c.Execution}, {"outcome", string(c.Outcome)},
		{"principal", c.Principal}, {"tool", c.Tool}, {"upstream", c.Upstream}} {
		if m.value != "" {
			f(m.name, m.value)
		}
	}
	f("kind", string(c.Kind))
	f("part", c.Part)
	f("record", c.Record)
	f("time", c.Time)
	if c.Begun != nil {
		begun = *c.Begun
	}
	return c.Seq, begun, true
}

// decodePlain decodes a leaf without anything that is escaped, as almost all are, several times
// faster than encoding/json. It succeeds only if the leaf is canonical: encoding the result would
// return the same bytes.
func decodePlain(leaf []byte) (*content, bool) { return new(decoding).decodePlain(leaf, string(leaf)) }

// decodePlain implements the function decodePlain. text is the leaf; the result's texts share its
// memory.
func (d *decoding) decodePlain(leaf []byte, text string) (*content, bool) {
	*d = decoding{}
	if !isPrintable(leaf, '\\') {
		return nil, false
	}
	p := plainReader{text}
	written := 0 // number of the members that each leaf has
	ok := p.readObject(func(name string) bool {
		switch name {
		case "kind", "part", "record", "seq", "time", "v":
			written++
		}
		return d.readMember(&p, name)
	})
	if !ok || written != 6 || p.rest != "" {
		return nil, false
	}
	d.canonical = true
	return &d.content, true
}

// readMember reads the value of a member of the leaf. The members that are omitted when they are
// empty must not be.
func (d *decoding) readMember(p *plainReader, name string) (ok bool) {
	if to := d.textMember(name); to != nil {
		*to, ok = p.readText()
		return ok && *to != ""
	}
	switch name {
	case "kind":
		var text string
		text, ok = p.readText()
		d.Kind = Kind(text)
	case "part":
		d.Part, ok = p.readText()
	case "record":
		d.Record, ok = p.readText()
	case "time":
		d.Time, ok = p.readText()
	case "arguments":
		d.Arguments, ok = &d.arguments, p.readBytesOf(&d.arguments)
	case "error":
		d.Error, ok = &d.error, p.readBytesOf(&d.error)
	case "result":
		d.Result, ok = &d.result, p.readBytesOf(&d.result)
	case "detail":
		d.Detail = map[string]string{}
		ok = p.readObject(func(name string) bool {
			value, ok := p.readText()
			d.Detail[name] = value
			return ok
		})
	case "begun":
		d.Begun = &d.begun
		d.begun, ok = p.readInteger()
	case "duration_us":
		d.Micros, ok = p.readInteger()
		ok = ok && d.Micros != 0
	case "seq":
		d.Seq, ok = p.readInteger()
	case "v":
		var v int64
		v, ok = p.readInteger()
		d.Version = int(v)
	}
	return ok
}

// textMember returns the field of a member that is a text and omitted when it is empty, or nil.
func (c *content) textMember(name string) *string {
	switch name {
	case "call":
		return &c.Call
	case "client":
		return &c.Client
	case "effect":
		return &c.Effect
	case "error_kind":
		return (*string)(&c.ErrorKind)
	case "execution":
		return &c.Execution
	case "file":
		return &c.File
	case "name":
		return &c.Name
	case "outcome":
		return (*string)(&c.Outcome)
	case "policy":
		return &c.Policy
	case "principal":
		return &c.Principal
	case "reason":
		return &c.Reason
	case "session":
		return &c.Session
	case "tool":
		return &c.Tool
	case "upstream":
		return &c.Upstream
	}
	return nil
}

// A plainReader reads canonical JSON without escapes. The texts that it returns share its memory.
type plainReader struct{ rest string }

// skipByte skips b if it is next.
func (p *plainReader) skipByte(b byte) bool {
	if p.rest == "" || p.rest[0] != b {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// readObject calls f with the name of each member of an object, which must be sorted. f reads the
// value. An empty object is refused.
func (p *plainReader) readObject(f func(name string) bool) bool {
	if !p.skipByte('{') {
		return false
	}
	for last, first := "", true; ; first = false {
		name, ok := p.readText()
		if !ok || !first && name <= last || !p.skipByte(':') || !f(name) {
			return false
		}
		if p.skipByte('}') {
			return true
		}
		if !p.skipByte(',') {
			return false
		}
		last = name
	}
}

func (p *plainReader) readText() (string, bool) {
	if !p.skipByte('"') {
		return "", false
	}
	end := strings.IndexByte(p.rest, '"')
	if end < 0 {
		return "", false
	}
	text := p.rest[:end]
	p.rest = p.rest[end+1:]
	return text, true
}

// readInteger reads an integer that RFC 8785 formats as strconv does.
func (p *plainReader) readInteger() (int64, bool) {
	n := 0
	for n < len(p.rest) && (p.rest[n] == '-' || p.rest[n] >= '0' && p.rest[n] <= '9') {
		n++
	}
	digits := p.rest[:n]
	p.rest = p.rest[n:]
	value, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil, value <= -1<<53, value >= 1<<53:
		return 0, false
	case digits[0] == '0', digits[0] == '-' && digits[1] == '0': // leading zeros, or -0
		return value, digits == "0"
	}
	return value, true
}

func (p *plainReader) readBytesOf(b *bytesOf) bool {
	written := 0
	return p.readObject(func(name string) (ok bool) {
		switch name {
		case "digest":
			b.Digest, ok = p.readText()
			written++
		case "kept":
			b.Kept, ok = p.readText()
			ok = ok && b.Kept != ""
		case "size":
			b.Size, ok = p.readInteger()
			written++
		}
		return ok
	}) && written == 2
}

// isCanonical reports whether leaf, from which c was decoded, is canonical JSON.
func (c *content) isCanonical(leaf []byte) bool {
	if c.canonical {
		return true
	}
	again, err := c.encodeLeaf()
	return err == nil && string(again) == string(leaf)
}
