package tool

import (
	"encoding/json"
	"testing"
)

func TestCallDigest(t *testing.T) {
	same := [][2]string{
		{``, `{}`}, {` { } `, `{}`}, {`{"b":1,"a":[1.0,2]}`, `{"a":[1,2],"b":1}`}, {`{"a":"\u0041"}`, `{"a":"A"}`},
		{`{"n":1e2}`, `{"n":100}`},
	}
	for _, p := range same {
		if a, b := CallDigest("t", json.RawMessage(p[0])), CallDigest("t", json.RawMessage(p[1])); a != b {
			t.Errorf("%s and %s are two calls: %s, %s", p[0], p[1], canonical(json.RawMessage(p[0])),
				canonical(json.RawMessage(p[1])))
		}
	}
	for _, p := range [][2]string{
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`}, {`{"n":1e400}`, `{"n":1e401}`}, {`{"a":1}`, `{"a":"1"}`},
		{`[1]`, `{"0":1}`},
		{`{"n":9007199254740993}`, `{"n":"9007199254740993"}`}, {`not json`, `{}`},
		{`{"n":0.10000000000000001}`, `{"n":0.1}`},
	} {
		if CallDigest("t", json.RawMessage(p[0])) == CallDigest("t", json.RawMessage(p[1])) {
			t.Errorf("%s and %s are one call", p[0], p[1])
		}
	}
	if CallDigest("a", json.RawMessage(`{}`)) == CallDigest("b", json.RawMessage(`{}`)) {
		t.Error("two tools are one")
	}
}
