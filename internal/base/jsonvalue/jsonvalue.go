// Package jsonvalue reads decoded JSON whose structure is not known in advance: the arguments and
// results of tools, and the claims of tokens. JSON of a known structure is decoded into a struct
// instead.
package jsonvalue

import "strconv"

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
