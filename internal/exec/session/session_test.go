package session

import (
	"bytes"
	"encoding/json"
	"testing"
)

func FuzzParseExported(f *testing.F) {
	x := &Exported{Name: "a", Engine: "e", State: &State{Guests: []Guest{{Language: "python"}}},
		Guests:  map[string][]byte{"python": []byte("snapshot")},
		Journal: [][]byte{[]byte("part")},
		Files:   []ExportedFile{{Path: "d", Dir: true}, {Path: "d/f", Data: []byte("x")}}}
	var b bytes.Buffer
	if err := x.write(&b); err != nil {
		f.Fatalf("write: %v", err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	x.Private, b = []byte("a vault"), bytes.Buffer{}
	if err := x.write(&b); err != nil {
		f.Fatalf("write: %v", err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	if again, err := parseExported(b.Bytes()); err != nil || string(again.Private) != "a vault" {
		f.Fatalf("the vault became %+v: %v", again, err)
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		x, err := parseExported(plain)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := x.write(&b); err != nil {
			t.Fatalf("write: %v", err)
		}
		if _, err := parseExported(b.Bytes()); err != nil {
			t.Fatalf("parseExported: %v", err)
		}
	})
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "A-1_b.c": true, "": false, ".a": false, "a/b": false,
		"a b": false, "é": false, "..": false, "a\n": false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q, err = %v, want (err == nil) == ok", name, err)
		}
	}
	var d hexDigest
	if err := json.Unmarshal([]byte(`"00"`), &d); err == nil {
		t.Error("a short digest")
	}
}
