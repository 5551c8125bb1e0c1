package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// Limits on what is read of one value. The rest of a larger value is not looked at.
const (
	maxBytes = 256 << 10
	maxRead  = 20_000 // values, including nested ones
)

// ReadShape returns the Shape of a JSON value. It returns an error if the part of the value that it
// reads is not JSON.
func ReadShape(value json.RawMessage) (*Shape, error) {
	value = bytes.Trim(value, " \t\r\n")
	if len(value) > 0 && value[0] == '"' && len(value) > maxBytes { // a single text
		return &Shape{Kinds: String}, nil
	}
	d := json.NewDecoder(bytes.NewReader(value[:min(len(value), maxBytes)]))
	d.UseNumber()
	r := &valueReader{decoder: d, left: maxRead, cut: len(value) > maxBytes}
	s, err := r.readValue(0)
	if err != nil {
		return nil, err
	}
	if s == nil { // none of it was read
		return anyShape(), nil
	}
	if !r.ended {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, errors.New("there is more after the value")
		}
	}
	return limitNodes(s), nil
}

// A valueReader reads values until its limits.
type valueReader struct {
	decoder *json.Decoder
	left    int  // values that it may still read
	cut     bool // the text ends before the value
	ended   bool // a limit was reached: nothing more is read
}

// readToken returns the next token, or nil if a limit is reached.
func (r *valueReader) readToken() (json.Token, error) {
	if r.left <= 0 {
		r.ended = true
		return nil, nil
	}
	t, err := r.decoder.Token()
	if err != nil && r.cut && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		r.ended = true
		return nil, nil
	}
	return t, err
}

// readValue reads the next value. It returns nil if a limit was reached before it.
func (r *valueReader) readValue(depth int) (*Shape, error) {
	t, err := r.readToken()
	if err != nil || r.ended {
		return nil, err
	}
	r.left--
	switch t := t.(type) {
	case nil:
		return &Shape{Kinds: Null}, nil
	case bool:
		return &Shape{Kinds: Boolean}, nil
	case string:
		return &Shape{Kinds: String}, nil
	case json.Number:
		if r.cut && r.decoder.InputOffset() == maxBytes { // perhaps only the first digits
			r.ended = true
			return nil, nil
		}
		if strings.ContainsAny(string(t), ".eE") {
			return &Shape{Kinds: Number}, nil
		}
		return &Shape{Kinds: Integer}, nil
	case json.Delim:
		if t == '[' {
			return r.readArray(depth)
		}
		return r.readObject(depth)
	}
	return nil, errors.New("an unknown token")
}

func (r *valueReader) readArray(depth int) (*Shape, error) {
	s := &Shape{Kinds: Array}
	for r.hasMore() {
		item, err := r.readValue(depth + 1)
		if err != nil {
			return nil, err
		}
		if item != nil && !item.isEqual(s.Items) {
			s.Items = joinShapes(s.Items, item, sameResult)
		}
	}
	return s, r.endContainer(s, depth)
}

func (r *valueReader) readObject(depth int) (*Shape, error) {
	s := &Shape{Kinds: Object}
	for r.hasMore() {
		t, err := r.readToken()
		if err != nil {
			return nil, err
		}
		name, isName := t.(string)
		if r.ended || !isName {
			break
		}
		member, err := r.readValue(depth + 1)
		if err != nil {
			return nil, err
		}
		if member != nil {
			s.addMember(name, member)
		}
	}
	if s.Values == nil {
		s.dropDataNames()
	}
	return s, r.endContainer(s, depth)
}

// addMember adds a member to the Shape of an object that is being read.
func (s *Shape) addMember(name string, member *Shape) {
	f := s.Fields[name]
	switch {
	case s.Values != nil:
		s.Values = joinShapes(s.Values, member, sameResult)
	case f != nil: // the name is there twice
		f.Shape = *joinShapes(&f.Shape, member, sameResult)
	case !isFieldName(name) || len(s.Fields) == maxFields:
		s.Values, s.Fields = joinShapes(valuesOf(s), member, sameResult), nil
	default:
		if s.Fields == nil {
			s.Fields = map[string]*Field{}
		}
		s.Fields[name] = &Field{Shape: *member, Results: 1}
	}
}

// hasMore reports whether the current object or array has more members and no limit is reached.
func (r *valueReader) hasMore() bool { return !r.ended && r.decoder.More() }

// endContainer reads the end of an object or array. s becomes any value if it is nested too deeply.
func (r *valueReader) endContainer(s *Shape, depth int) error {
	if !r.ended {
		t, err := r.readToken()
		if err != nil {
			return err
		}
		if _, isDelim := t.(json.Delim); !isDelim && !r.ended {
			return errors.New("an object or array without its end")
		}
	}
	s.Partial = s.Partial || r.ended
	if depth >= maxDepth {
		*s = *anyShape()
	}
	return nil
}
