package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"

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
//	              represent it exactly (over 64 bits, more than four decimals): see convertNumber
//	array         Set: unordered, without duplicates
//	object        Record
//	null          omitted, as if missing
//
// A value of the wrong type makes comparisons fail, so no permit holds and every forbid denies. An
// object with duplicate names is an error, since the recipient might use the other value. So is a
// name that differs from one in the schema only in case, and so are lists of many values that
// collide in Cedar's sets.
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
	if len(r.listed) > fewValues { // a policy may compare lists with each other
		err = r.checkCollisions(r.listed)
	}
	return record, err
}

type valueReader struct {
	d        *json.Decoder
	count    int           // of the values so far
	listed   []cedar.Value // the elements of all lists
	compared int           // see checkCollisions
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
		return convertNumber(string(t), s)
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
		if declared := s.differsInCase(name); declared != "" {
			return nil, fmt.Errorf("the arguments contain %q, which its recipient may take for %q: use the name "+
				"in the tool's definition", clipText(name), clipText(declared))
		}
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
	before := r.count
	for r.d.More() {
		v, err := r.readValue(s.itemShape(), depth+1)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out = append(out, v)
		}
	}
	if _, err := r.d.Token(); err != nil {
		return nil, fmt.Errorf("the arguments are not JSON")
	}
	if r.count-before > fewValues {
		if err := r.checkCollisions(out); err != nil {
			return nil, err
		}
	}
	r.listed = append(r.listed, out...)
	return cedar.NewSet(out...), nil
}

// maxNumber is the longest text that is parsed as a number, in bytes. Writing out 1e999999999 would
// take too long.
const maxNumber = 40

// printedNumber is the most characters of a number in which 17 digits are printed, as with %.17g.
const printedNumber = 24

// convertNumber converts a JSON number to the type in s, or to a String if that can't represent it.
// A number that can't be represented, but that a recipient may round to one that can, becomes that
// one if it has no more digits than programs print (0.10000000000000001). Otherwise it is an error:
// 5.0000000000000000000000001 would not be equal to 5 here, and be 5 for the recipient.
func convertNumber(text string, s *shape) (cedar.Value, error) {
	if v := representNumber(text, s); v != nil {
		return v, nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		rounded := strconv.FormatFloat(f, 'g', -1, 64)
		switch v := representNumber(rounded, s); {
		case v != nil && len(text) <= printedNumber:
			return v, nil
		case v != nil:
			return nil, fmt.Errorf("the arguments contain the number %s, which its recipient may round: write %s",
				clipText(text), rounded)
		}
	}
	return cedar.String(text), nil
}

// representNumber returns a JSON number in the type in s, or nil if that can't represent it.
func representNumber(text string, s *shape) cedar.Value {
	if len(text) > maxNumber {
		return nil
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 4 {
		return nil
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	if s.isKind(decimalShape) {
		scaled := new(big.Rat).Mul(n, big.NewRat(10_000, 1))
		if scaled.IsInt() && scaled.Num().IsInt64() {
			if d, err := cedar.NewDecimal(scaled.Num().Int64(), -4); err == nil {
				return d
			}
		}
		return nil
	}
	if n.IsInt() && n.Num().IsInt64() {
		return cedar.Long(n.Num().Int64())
	}
	return nil
}

// clipText returns the beginning of an external text.
func clipText(s string) string { return text.Clip(s, 60) }
