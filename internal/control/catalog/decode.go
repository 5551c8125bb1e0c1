package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
)

// decodeArguments decodes the arguments of a call, which must be an object, and counts their
// values. Empty input is decoded as {}.
func decodeArguments(args json.RawMessage) (v any, values int, err error) {
	if len(args) > maxArguments {
		return nil, 0, fmt.Errorf("they have %d bytes, more than %d", len(args), maxArguments)
	}
	if len(bytes.TrimSpace(args)) == 0 {
		return newObject(), 0, nil
	}
	d := decoder{depth: maxArgumentDepth, nodes: maxArgumentCount, unique: true}
	if v, err = d.decode(args); err != nil {
		return nil, 0, err
	}
	if _, ok := jsonvalue.AsObject(v); !ok {
		return nil, 0, fmt.Errorf("they are one object with the arguments by name; got %s", describe(v))
	}
	return v, maxArgumentCount - d.nodes, nil
}

// errTooMany is the error for JSON with more values than a decoder accepts.
var errTooMany = errors.New("too many values: pass fewer at a time")

// A decoder decodes JSON within limits; numbers stay exact (json.Number).
type decoder struct {
	depth  int  // remaining nesting depth of objects and arrays
	nodes  int  // remaining number of values
	unique bool // reject duplicate keys in an object: parsers differ on which one counts

	in *json.Decoder
}

func (d *decoder) decode(raw json.RawMessage) (any, error) {
	d.in = json.NewDecoder(bytes.NewReader(raw))
	d.in.UseNumber()
	v, err := d.value()
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the JSON ends too early")
		}
		return nil, err
	}
	if _, err := d.in.Token(); err != io.EOF {
		return nil, errors.New("there is more after the JSON value")
	}
	return v, nil
}

func (d *decoder) value() (any, error) {
	tok, err := d.in.Token()
	if err != nil {
		return nil, err
	}
	if d.nodes--; d.nodes < 0 {
		return nil, errTooMany
	}
	switch tok := tok.(type) {
	case json.Number:
		return tok, checkNumber(string(tok))
	case json.Delim:
		if d.depth--; d.depth < 0 {
			return nil, errors.New("nested too deeply")
		}
		defer func() { d.depth++ }()
		if tok == '{' {
			return d.object()
		}
		return d.array()
	}
	return tok, nil
}

// newObject returns an empty object. It has the type that package jsonschema validates objects in.
func newObject() map[string]any { return map[string]any{} }

func (d *decoder) object() (any, error) {
	out := newObject()
	for d.in.More() {
		key, err := d.in.Token()
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, errors.New("a name in an object is no string")
		}
		if _, twice := out[name]; twice && d.unique {
			return nil, fmt.Errorf("%s is given twice", quoteShort(name))
		}
		if out[name], err = d.value(); err != nil {
			return nil, err
		}
	}
	_, err := d.in.Token()
	return out, err
}

func (d *decoder) array() (any, error) {
	out := []any{}
	for d.in.More() {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.in.Token()
	return out, err
}

// checkNumber returns an error for numbers that take long to compare exactly.
func checkNumber(s string) error {
	mantissa, exponent := s, "0"
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	if e, err := strconv.Atoi(exponent); err != nil || max(e, -e) > 400 || len(mantissa) > 1000 {
		return fmt.Errorf("the number %s is out of range", cut(s, 40))
	}
	return nil
}
