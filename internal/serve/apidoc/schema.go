package apidoc

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// types collects the schemas of named structs.
type types struct {
	named map[string]*schema
}

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// describeType returns the schema of a type, as encoding/json writes it.
func (t *types) describeType(of reflect.Type) *schema {
	switch of {
	case timeType:
		return &schema{Type: "string", Format: "date-time"}
	case rawType:
		return &schema{}
	}
	switch of.Kind() {
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &schema{Type: "integer"}
	case reflect.Float32, reflect.Float64:
		return &schema{Type: "number"}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Pointer:
		return t.describeType(of.Elem())
	case reflect.Slice, reflect.Array:
		return &schema{Type: "array", Items: t.describeType(of.Elem())}
	case reflect.Map:
		return &schema{Type: "object", Additional: t.describeType(of.Elem())}
	case reflect.Struct:
		return t.describeStruct(of)
	}
	return &schema{}
}

// describeStruct returns the schema of a struct. That of a named one is in the list of schemas.
func (t *types) describeStruct(of reflect.Type) *schema {
	if of.Name() == "" {
		s := &schema{Type: "object", Properties: map[string]*schema{}}
		t.addFields(s, of)
		return s
	}
	if t.named[of.Name()] == nil {
		s := &schema{Type: "object", Properties: map[string]*schema{}}
		t.named[of.Name()] = s // first: it may contain itself
		t.addFields(s, of)
	}
	return &schema{Ref: "#/components/schemas/" + of.Name()}
}

// addFields adds the fields of a struct. Its own come before those of structs that it embeds.
func (t *types) addFields(s *schema, of reflect.Type) {
	var embedded []reflect.Type
	for i := range of.NumField() {
		f := of.Field(i)
		tag, has := f.Tag.Lookup("json")
		if f.Anonymous && !has {
			embedded = append(embedded, f.Type)
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !f.IsExported() || name == "-" || s.Properties[name] != nil {
			continue
		}
		left := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		v := t.describeType(f.Type)
		switch kind := f.Type.Kind(); {
		case !left && (kind == reflect.Pointer || kind == reflect.Slice && f.Type != rawType || kind == reflect.Map):
			v = &schema{AnyOf: []*schema{v, {Enum: []json.RawMessage{json.RawMessage("null")}}}}
		}
		s.Properties[name] = v
		if !left {
			s.Required = append(s.Required, name)
		}
	}
	for _, e := range embedded {
		t.addFields(s, e)
	}
	slices.Sort(s.Required)
}
