package tool

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"github.com/gowebpki/jcs"
)

// TestEncodeCanonical checks the examples of RFC 8785, sections 3.2.2 and 3.2.3, and what they
// leave out.
func TestEncodeCanonical(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],` +
			`"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
				`"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			`{"\r":2,"1":4,"` + "\u0080" + `":6,"ö":7,"€":1,"😀":5,"` + "\ufb33" + `":3}`},
		{`[-0,-0.0,0e5,9007199254740993,1e21,1e20,1e-6,1e-7,-1.5]`,
			`[0,0,0,9007199254740992,1e+21,100000000000000000000,0.000001,1e-7,-1.5]`},
		{`"<&>\u2028\u007f\b\f\t"`, `"<&>` + "\u2028\u007f" + `\b\f\t"`},
		{`{"a":{"b":[],"a":{}},"":[{}]}`, `{"":[{}],"a":{"a":{},"b":[]}}`},
		{`{"aa":1,"a":2,"b":3}`, `{"a":2,"aa":1,"b":3}`},
	} {
		got, err := EncodeCanonical(decodeNumbers(t, c.text))
		if err != nil || string(got) != c.want {
			t.Errorf("EncodeCanonical(%s) = %s, %v, want %s", c.text, got, err, c.want)
		}
	}
	for _, v := range []any{json.Number("1e999"), math.Inf(1), []any{math.NaN()}, 3, map[string]any{"a": []int{1}}} {
		if got, err := EncodeCanonical(v); err == nil {
			t.Errorf("EncodeCanonical(%v) = %s, want an error", v, got)
		}
	}
}

func decodeNumbers(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// FuzzEncodeCanonical compares the canonical form with that of another implementation.
func FuzzEncodeCanonical(f *testing.F) {
	f.Add("a\u00e9\U0001f600\ufb33\x00\x1f<&>\u2028", "b", 1.5, int64(1<<53+1))
	f.Add("\U00010000", "\uffff", math.Copysign(0, -1), int64(-1))
	f.Add("", "\xff\\\"", 1e21, int64(math.MaxInt64))
	f.Add("\ud7ff", "\ue000", 123456789e-15, int64(0))
	f.Fuzz(func(t *testing.T, a, b string, x float64, n int64) {
		raw, err := json.Marshal([]any{map[string]any{a: x, b: []any{a, n}, a + b: nil, b + a: true}, b})
		if err != nil {
			t.Skip() // not a number
		}
		want, err := jcs.Transform(raw)
		if err != nil {
			t.Skip() // names became equal, since invalid UTF-8 becomes U+FFFD
		}
		got, err := EncodeCanonical(decodeNumbers(t, string(raw)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("EncodeCanonical(%s) = %s, %v, want %s", raw, got, err, want)
		}
	})
}

// FuzzCanonicalNumber compares numbers as they are written with another implementation.
func FuzzCanonicalNumber(f *testing.F) {
	for _, s := range []string{"1e-324", "0.1e-6", "-1e21", "123456789012345678901234567890", "5e-324"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := strconv.ParseFloat(s, 64); err != nil || !json.Valid([]byte(s)) {
			t.Skip()
		}
		want, err := jcs.Transform([]byte("[" + s + "]"))
		if err != nil {
			t.Skip() // it doesn't accept all spaces
		}
		if got, err := EncodeCanonical([]any{json.Number(s)}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("EncodeCanonical(%s) = %s, %v, want %s", s, got, err, want)
		}
	})
}
