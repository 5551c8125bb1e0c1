package executor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/tool"
)

// genJSON generates JSON values: integers of any size, numbers that JavaScript can represent,
// unusual names and strings.
func genJSON(depth int) *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		kind := rapid.IntRange(0, 7).Draw(t, "kind")
		if depth == 0 {
			kind = kind % 6
		}
		switch kind {
		case 0:
			return json.RawMessage(rapid.SampledFrom([]string{"null", "true", "false", "0", "-1", "9007199254740991",
				"-9007199254740991"}).Draw(t, "simple"))
		case 1:
			n := new(big.Int).Exp(big.NewInt(2), big.NewInt(int64(rapid.IntRange(53, 300).Draw(t, "power"))), nil)
			n.Add(n, big.NewInt(rapid.Int64().Draw(t, "plus")))
			return json.RawMessage(n.String())
		case 2:
			return json.RawMessage(strconv.FormatFloat(rapid.Float64Range(-1e15, 1e15).Draw(t, "float"), 'g', -1, 64))
		case 3:
			return json.RawMessage(strconv.FormatInt(rapid.Int64().Draw(t, "int"), 10))
		case 4, 5:
			return quote(genString.Draw(t, "string"))
		case 6:
			items := rapid.SliceOfN(genJSON(depth-1), 0, 5).Draw(t, "items")
			return json.RawMessage("[" + string(bytes.Join(rawBytes(items), []byte(","))) + "]")
		}
		names := rapid.SliceOfNDistinct(rapid.OneOf(genString, rapid.SampledFrom([]string{
			"__proto__", "constructor", "then", "toJSON", "hasOwnProperty", "length", "10", "handle", "type", "done",
			"answer"})), 0, 5, rapid.ID).Draw(t, "names")
		out := []byte{'{'}
		for i, n := range names {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, quote(n)...), ':'), genJSON(depth-1).Draw(t, "member")...)
		}
		return append(out, '}')
	})
}

var genString = rapid.OneOf(rapid.String(),
	rapid.SampledFrom([]string{"", "\n", "\u2028", "</script>", "12345678901234567890", `"`, "\\", "\x00", "NaN"}))

func rawBytes(items []json.RawMessage) [][]byte {
	out := make([][]byte, len(items))
	for i, x := range items {
		out[i] = x
	}
	return out
}

func quote(s string) json.RawMessage {
	b, err := tool.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

// meaning decodes JSON so that equal values are deeply equal: integers exactly, other numbers as
// float64.
func meaning(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return normal(v), nil
}

func normal(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, ok := new(big.Int).SetString(v.String(), 10); ok {
			return n.String()
		}
		f, _ := v.Float64()
		if f == 0 {
			f = 0 // no negative zero
		}
		if n, acc := big.NewFloat(f).Int(nil); acc == big.Exact {
			return n.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
	}
	return v
}

// TestValuesPassUnchanged checks that a tool's answer reaches the agent unchanged. The program
// receives it as a result, passes it on as arguments of another call, and returns it as its value.
func TestValuesPassUnchanged(t *testing.T) {
	t.Parallel()
	var given json.RawMessage
	a := standard()
	a["give"] = func(_ context.Context, _ *tool.Call) (*tool.Result, error) {
		return tool.ParseResult(json.RawMessage(`{"content":[],"structuredContent":{"v":` + string(given) + `}}`))
	}
	a["take"] = func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.ParseResult(
			json.RawMessage(`{"content":[{"type":"text","text":` + string(quote(string(c.Arguments))) + `}]}`))
	}
	r := newRig(t, a, nil)
	rapid.Check(t, func(t *rapid.T) {
		given = genJSON(3).Draw(t, "value")
		got := r.value(`const g = await box.give(); const back = await box.take(g); return [g, back]`)
		want := fmt.Sprintf(`[{"v":%s},{"v":%s}]`, given, given)
		g, err := meaning([]byte(got))
		if err != nil {
			t.Fatalf("got = %s, err = %v, want nil", got, err)
		}
		w, err := meaning([]byte(want))
		if err != nil {
			t.Fatalf("want = %s, err = %v, want nil", want, err)
		}
		if !reflect.DeepEqual(g, w) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}
