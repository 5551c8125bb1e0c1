package audit

import (
	"encoding/json"
	"reflect"

	"github.com/gowebpki/jcs"
)

// Encodings returns a leaf with all of its members set from text, as encode and as the JCS library
// encode it.
func Encodings(text string, n int64) (ours, canonical []byte) {
	c := &content{}
	fill(reflect.ValueOf(c).Elem(), text, n)
	ours, err := c.encodeLeaf()
	if err != nil {
		return nil, nil
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, nil
	}
	canonical, _ = jcs.Transform(raw)
	return ours, canonical
}

func fill(v reflect.Value, text string, n int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() { // no member
				continue
			}
			fill(v.Field(i), text, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, n)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{text: text, "b": "2", "a": "1"}))
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		v.SetInt(n)
	default:
		panic("no member of a leaf is of kind " + v.Kind().String())
	}
}
