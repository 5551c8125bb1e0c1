package jsonvalue_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
)

func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return v
}

func TestAsObject(t *testing.T) {
	o, ok := jsonvalue.AsObject(decode(t, `{"a": {"b": {"c": 1}}, "list": [1, {"d": 2}]}`))
	if !ok {
		t.Fatal("an object is not read as one")
	}
	if again, ok := jsonvalue.AsObject(o); !ok || len(again) != 2 {
		t.Errorf("an Object is read as %v, %v", again, ok)
	}
	for _, text := range []string{`null`, `1`, `"a"`, `[{}]`} {
		if o, ok := jsonvalue.AsObject(decode(t, text)); ok || o != nil {
			t.Errorf("%s is read as the object %v", text, o)
		}
	}
	for want, path := range map[any][]string{1.0: {"a", "b", "c"}, nil: {"a", "c", "b"}} {
		if got := o.ValueAt(path...); got != want {
			t.Errorf("%q leads to %v; want %v", path, got, want)
		}
	}
	if o.ObjectAt("list") != nil || o.ObjectAt("a") == nil || jsonvalue.Object(nil).ObjectAt("a") != nil {
		t.Error("ObjectAt returns something other than the member that is an object")
	}
}

func TestForSwitch(t *testing.T) {
	for text, want := range map[string]string{`{}`: "object", `[]`: "list", `"x"`: "other", `null`: "other"} {
		got := "other"
		switch jsonvalue.ForSwitch(decode(t, text)).(type) {
		case jsonvalue.Object:
			got = "object"
		case []any:
			got = "list"
		}
		if got != want {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
}

func TestStepInto(t *testing.T) {
	v := decode(t, `{"a": [1, 2]}`)
	list := jsonvalue.StepInto(v, "a")
	for step, want := range map[string]any{"0": 1.0, "1": 2.0, "2": nil, "-1": nil, "a": nil, "": nil} {
		if got := jsonvalue.StepInto(list, step); got != want {
			t.Errorf("step %q of a list: %v; want %v", step, got, want)
		}
	}
	if got := jsonvalue.StepInto("text", "0"); got != nil {
		t.Errorf("step into a text: %v", got)
	}
}

// TestDecodeList checks that lists are decoded as by package json, up to a number of elements.
func TestDecodeList(t *testing.T) {
	for _, text := range []string{"null", "[]", "[1]", "[1, 2 ,3]", "[1,2,3,4]", "{}", "1", `[1,"x"]`, "[null]"} {
		var want []int
		err := json.Unmarshal([]byte(text), &want)
		fits := err == nil && len(want) <= 3
		got, err := jsonvalue.DecodeList[int]([]byte(text), 3)
		if (err == nil) != fits || fits && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}
