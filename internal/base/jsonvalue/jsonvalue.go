// Package jsonvalue reads decoded JSON whose structure is not known in advance: the arguments and
// results of tools, and the claims of tokens. JSON of a known structure is decoded into a struct
// instead, whose lists may be bounded by DecodeList.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// An Object is a decoded JSON object. It is a map because its members are not known in advance. The
// methods of a nil Object find nothing.
type Object map[string]any

// AsObject returns v as an Object, and whether it is one.
func AsObject(v any) (Object, bool) {
	switch v := v.(type) {
	case map[string]any: // as encoding/json decodes an object into an interface
		return v, true
	case Object:
		return v, true
	}
	return nil, false
}

// ForSwitch returns v for a type switch: an Object if it is an object, otherwise v itself.
func ForSwitch(v any) any {
	if o, ok := AsObject(v); ok {
		return o
	}
	return v
}

// ObjectAt returns the member name if it is an object, and nil otherwise.
func (o Object) ObjectAt(name string) Object {
	m, _ := AsObject(o[name])
	return m
}

// ValueAt returns the value at a path of one or more names, each of a member of the object before
// it. It returns nil if there is none.
func (o Object) ValueAt(path ...string) any {
	last := len(path) - 1
	for _, name := range path[:last] {
		o = o.ObjectAt(name)
	}
	return o[path[last]]
}

// StepInto returns the member or the element of a value that a step of a JSON pointer leads to, or
// nil if there is none.
func StepInto(v any, step string) any {
	if o, ok := AsObject(v); ok {
		return o[step]
	}
	list, _ := v.([]any)
	if n, err := strconv.Atoi(step); err == nil && n >= 0 && n < len(list) {
		return list[n]
	}
	return nil
}

// DecodeList decodes a JSON array of at most most elements, or null. The elements of an array that
// isn't trusted may take far more memory than its bytes. It fails before it decodes more of them.
func DecodeList[T any](data []byte, most int) ([]T, error) {
	if bytes.Equal(data, []byte("null")) {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("a list was expected, not %.20q", data)
	}
	list := []T{}
	for d.More() {
		if len(list) == most {
			return nil, fmt.Errorf("a list of more than %d elements", most)
		}
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}
