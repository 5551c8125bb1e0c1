package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/biplane-dev/biplane/internal/base/text"
)

// Limits on arguments that policies read. A call with larger arguments is denied if any policy
// reads arguments; otherwise the limits don't apply.
const (
	argumentDepth  = 32
	argumentValues = 20_000
)

// convertArguments converts the arguments of a call to a Cedar record, with the types in s:
//
//	JSON          Cedar
//	string        String
//	true, false   Bool
//	number        decimal if the schema says "number", otherwise Long; String if that type can't
//	              represent it exactly (over 64 bits, more than four decimals)
//	array         Set: unordered, without duplicates
//	object        Record
//	null          omitted, as if missing
//
// A value of the wrong type makes comparisons fail, so no permit holds and every forbid denies. An
// object with duplicate names is an error, since the recipient might use the other value.
func convertArguments(raw json.RawMessage, s *shape) (cedar.Record, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return cedar.Record{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	r := &valueReader{d: d}
	v, err := r.readValue(s, 0)
	if err != nil {
		return cedar.Record{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return cedar.Record{}, fmt.Errorf("the arguments are not one JSON object")
	}
	record, ok := v.(cedar.Record)
	if !ok {
		return cedar.Record{}, fmt.Errorf("the arguments are not a JSON object")
	}
	return record, nil
}

type valueReader struct {
	d     *json.Decoder
	count int
}

// readValue reads one value; it returns nil for null.
func (r *valueReader) readValue(s *shape, depth int) (cedar.Value, error) {
	t, err := r.d.Token()
	if err != nil {
		return nil, fmt.Errorf("the arguments are not JSON")
	}
	if r.count++; r.count > argumentValues {
		return nil, fmt.Errorf("the arguments have over %d values, more than policies examine", argumentValues)
	}
	if depth > argumentDepth {
		return nil, fmt.Errorf("the arguments nest deeper than %d levels, more than policies examine", argumentDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return r.readRecord(s, depth)
		}
		return r.readSet(s, depth)
	case string:
		return cedar.String(t), nil
	case bool:
		return cedar.Boolean(t), nil
	case json.Number:
		return convertNumber(string(t), s), nil
	}
	return nil, nil
}

func (r *valueReader) readRecord(s *shape, depth int) (cedar.Value, error) {
	out := cedar.RecordMap{}
	seen := map[string]bool{}
	for r.d.More() {
		t, err := r.d.Token()
		if err != nil {
			return nil, fmt.Errorf("the arguments are not JSON")
		}
		name, _ := t.(string)
		if seen[name] {
			return nil, fmt.Errorf("the arguments contain %q twice", clipText(name))
		}
		seen[name] = true
		v, err := r.readValue(s.fieldShape(name), depth+1)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out[cedar.String(name)] = v
		}
	}
	_, err := r.d.Token()
	return cedar.NewRecord(out), err
}

func (r *valueReader) readSet(s *shape, depth int) (cedar.Value, error) {
	var out []cedar.Value
	for r.d.More() {
		v, err := r.readValue(s.itemShape(), depth+1)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out = append(out, v)
		}
	}
	_, err := r.d.Token()
	return cedar.NewSet(out...), err
}

// maxNumber is the longest text that is parsed as a number, in bytes. Writing out 1e999999999 would
// take too long.
const maxNumber = 40

// convertNumber converts a JSON number to the type in s, or to a String if that can't represent it.
func convertNumber(text string, s *shape) cedar.Value {
	if len(text) > maxNumber {
		return cedar.String(text)
	}
	if i := bytes.IndexAny([]byte(text), "eE"); i >= 0 && len(text)-i > 4 {
		return cedar.String(text)
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok {
		return cedar.String(text)
	}
	if s.isKind(decimalShape) {
		scaled := new(big.Rat).Mul(n, big.NewRat(10_000, 1))
		if scaled.IsInt() && scaled.Num().IsInt64() {
			if d, err := cedar.NewDecimal(scaled.Num().Int64(), -4); err == nil {
				return d
			}
		}
		return cedar.String(text)
	}
	if n.IsInt() && n.Num().IsInt64() {
		return cedar.Long(n.Num().Int64())
	}
	return cedar.String(text)
}

// clipText returns the beginning of an external text.
func clipText(s string) string { return text.Clip(s, 60) }
