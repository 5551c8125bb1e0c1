package values

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// TestItems compares Items with encoding/json for arbitrary arrays.
func TestItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		indent := rapid.Bool().Draw(t, "indent")
		value := rapid.Custom(func(t *rapid.T) any {
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				return rapid.Float64().Draw(t, "number")
			case 1:
				return rapid.String().Draw(t, "string")
			case 2:
				return nil
			case 3:
				return rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.StringMatching(`["\\\[\]{},: ]*`))).Draw(t,
					"object")
			case 4:
				return []any{rapid.Int().Draw(t, "item"), []any{}, map[string]any{}}
			case 5:
				return rapid.Bool().Draw(t, "bool")
			}
			return rapid.StringMatching(`["\\\[\]{},: ]*`).Draw(t, "brackets")
		})
		v, err := json.Marshal(rapid.SliceOf(value).Draw(t, "array"))
		if indent {
			var any []any
			if err = json.Unmarshal(v, &any); err == nil {
				v, err = json.MarshalIndent(any, " ", "\t")
			}
		}
		var want []json.RawMessage
		if err != nil || json.Unmarshal(v, &want) != nil {
			t.Skip(err)
		}
		var got []string
		for item := range Items(v) {
			got = append(got, string(item))
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d elements %q, want %d", v, len(got), got, len(want))
		}
		for i := range want {
			if got[i] != string(want[i]) {
				t.Fatalf("%s: element %d is %q, want %q", v, i, got[i], want[i])
			}
		}
	})
}

func TestItemsOfNoArray(t *testing.T) {
	for _, s := range []string{``, `{}`, `"[1,2]"`, `null`, `12`, `[]`, ` [ ] `} {
		for item := range Items(json.RawMessage(s)) {
			t.Errorf("%q has an element %q", s, item)
		}
	}
}
