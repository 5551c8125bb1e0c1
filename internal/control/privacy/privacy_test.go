package privacy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

var ada = tool.Scope{Owner: "ada", Session: "work"}

func guard(c Config) *Guard {
	if c.Store == nil {
		c.Store = newMemory()
	}
	c.Log = slog.New(slog.DiscardHandler)
	return New(c)
}

func hideText(t testing.TB, g *Guard, of tool.Scope, text string) string {
	t.Helper()
	s := g.Sheet(t.Context(), of)
	s.Text(&text)
	s.Hide(t.Context())
	return text
}

func hideJSON(t testing.TB, g *Guard, of tool.Scope, text string, more ...[]string) string {
	t.Helper()
	s := g.Sheet(t.Context(), of, more...)
	raw := json.RawMessage(text)
	s.JSON(&raw)
	s.Hide(t.Context())
	return string(raw)
}

func reveal(t testing.TB, g *Guard, of tool.Scope, args string) string {
	t.Helper()
	out, _, err := g.Reveal(t.Context(), of, json.RawMessage(args), func([]string) (bool, string) { return true, "" })
	if err != nil {
		t.Fatalf("Reveal: %v", err)
	}
	return string(out)
}

func TestTokensAreStableAndTurnBack(t *testing.T) {
	g := guard(Config{Fields: []string{"**.name", "customer.passport"}})
	for _, c := range [][2]string{
		{`{"to":"Ada@Example.com","cc":["ada@example.com","b@example.org"]}`,
			`{"to":"[EMAIL_1]","cc":["[EMAIL_1]","[EMAIL_2]"]}`},
		{`{"n": 12345678901234567890, "x":"1 < 2", "phone":2125550147}`,
			`{"n": 12345678901234567890, "x":"1 < 2", "phone":"[PHONE_1]"}`},
		{`{"a@example.com":{"k":"pay 4111-1111-1111-1111 or 4111 1111 1111 1111"}}`,
			`{"[EMAIL_3]":{"k":"pay [CARD_1] or [CARD_1]"}}`},
		{`{"name":"Ada Lovelace","age":36}`, `{"name":"[FIELD_1]","age":36}`},
		{`{"customer":{"passport":["C01X",7,true,null]}}`,
			`{"customer":{"passport":["[FIELD_2]","[FIELD_3]","[FIELD_4]",null]}}`},
		{`"Dear Ada Lovelace, Ada Lovelaces"`, `"Dear [FIELD_1], Ada Lovelaces"`},
		{`{"body":"{\"customer\":{\"passport\":\"C01X\"},\"q\":\"say \\\"hi\\\" to b@example.org\"}"}`,
			`{"body":"{\"customer\":{\"passport\":\"[FIELD_2]\"},\"q\":\"say \\\"hi\\\" to [EMAIL_2]\"}"}`},
		{`{"e":"\u0061da\u0040example.com"}`, `{"e":"[EMAIL_1]"}`},
	} {
		if got := hideJSON(t, g, ada, c[0]); got != c[1] {
			t.Errorf("%s\n gives %s\n want %s", c[0], got, c[1])
		}
	}
	for _, c := range [][2]string{
		{`{"to":"[EMAIL_1]","n":"[PHONE_1]"}`, `{"to":"Ada@Example.com","n":2125550147}`},
		{`{"[EMAIL_2]":"x [EMAIL_1], [PHONE_1] [EMAIL_77] [EMAIL_0] [EMAIL_01] [email_1] EMAIL_1"}`,
			`{"b@example.org":"x Ada@Example.com, 2125550147 [EMAIL_77] [EMAIL_0] [EMAIL_01] [email_1] EMAIL_1"}`},
		{`{"e":"\u005bEMAIL_1]","n":9007199254740993}`, `{"e":"Ada@Example.com","n":9007199254740993}`},
		{`{"body":"{\"to\":\"[EMAIL_1]\",\"raw\":\"{\\\"n\\\":\\\"[PHONE_1]\\\"}\"}"}`,
			`{"body":"{\"to\":\"Ada@Example.com\",\"raw\":\"{\\\"n\\\":2125550147}\"}"}`},
		{`{"p":"[FIELD_3]","q":"[FIELD_4] [FIELD_4]"}`, `{"p":7,"q":"true true"}`},
		{`{"nothing":[1,2]}`, `{"nothing":[1,2]}`},
	} {
		if got := reveal(t, g, ada, c[0]); got != c[1] {
			t.Errorf("%s\n gives %s\n want %s", c[0], got, c[1])
		}
	}
}

func TestVaultsAreApart(t *testing.T) {
	g := guard(Config{})
	hideText(t, g, tool.Scope{Owner: "ada"}, "s@example.com")
	if got := hideText(t, g, ada, "w@example.com"); got != "[EMAIL_2]" { // a number is used once per owner
		t.Fatalf(`got = %v, want "[EMAIL_2]"`, got)
	}
	// the session also knows the values from outside of sessions
	if got := reveal(t, g, ada, `["[EMAIL_1]","[EMAIL_2]"]`); got != `["s@example.com","w@example.com"]` {
		t.Errorf("got = %v, want got == `[\"s@example.com\",\"w@example.com\"]`", got)
	}
	for _, of := range []tool.Scope{{Owner: "ada"}, {Owner: "ada", Session: "other"}} {
		if got := reveal(t, g, of, `["[EMAIL_2]"]`); got != `["[EMAIL_2]"]` {
			t.Errorf("of = %v, got = %s, want got == `[\"[EMAIL_2]\"]`", of, got)
		}
	}
	if got := reveal(t, g, tool.Scope{Owner: "eve", Session: "work"},
		`["[EMAIL_1]","[EMAIL_2]"]`); got != `["[EMAIL_1]","[EMAIL_2]"]` {
		t.Errorf("eve: %s", got)
	}
	// A copy and an export have the same tokens. If an imported token collides with one of the
	// owner's, neither is replaced.
	if err := g.Fork(t.Context(), "ada", "work", "copy"); err != nil {
		t.Fatalf("Fork: %v", err)
	}
	raw, err := g.Export(t.Context(), tool.Scope{Owner: "ada", Session: "copy"})
	if err != nil {
		t.Fatalf("Export: %v", err)
	}
	if err := g.Import(t.Context(), tool.Scope{Owner: "eve", Session: "in"}, raw); err != nil {
		t.Fatalf("Import: %v", err)
	}
	if got := reveal(t, g, tool.Scope{Owner: "eve", Session: "in"}, `["[EMAIL_2]"]`); got != `["w@example.com"]` {
		t.Errorf("got = %v, want got == `[\"w@example.com\"]`", got)
	}
	hideText(t, g, tool.Scope{Owner: "zoe"}, "a@example.com b@example.com")
	if err := g.Import(t.Context(), tool.Scope{Owner: "zoe", Session: "in"}, raw); err != nil {
		t.Fatalf("Import: %v", err)
	}
	if got := reveal(t, g, tool.Scope{Owner: "zoe", Session: "in"},
		`["[EMAIL_2]","[EMAIL_1]"]`); got != `["[EMAIL_2]","a@example.com"]` {
		t.Errorf("got = %v, want got == `[\"[EMAIL_2]\",\"a@example.com\"]`", got)
	}
	for _, bad := range []string{`{}`, `[{"Kind":"nose","N":1}]`, `[{"Kind":"email","N":0}]`} {
		if g.Import(t.Context(), ada, []byte(bad)) == nil {
			t.Errorf("%s is taken in", bad)
		}
	}
}

func TestPolicyDecidesOnAllKindsTogether(t *testing.T) {
	g := guard(Config{})
	hideText(t, g, ada, "a@example.com 4111 1111 1111 1111")
	var asked []string
	out, r, err := g.Reveal(t.Context(), ada, json.RawMessage(`{"a":"[EMAIL_1]","b":"[CARD_1]","c":"[IBAN_9]"}`),
		func(kinds []string) (bool, string) {
			asked = kinds
			return false, "no cards"
		})
	if err != nil || string(out) != `{"a":"[EMAIL_1]","b":"[CARD_1]","c":"[IBAN_9]"}` ||
		!slices.Equal(asked, []string{"card", "email"}) ||
		!slices.Equal(r.Kept, []string{"[CARD_1]", "[EMAIL_1]"}) || r.Reason != "no cards" ||
		!slices.Equal(r.Alien, []string{"[IBAN_9]"}) {
		t.Errorf("%s %+v %v, asked about %v", out, r, err, asked)
	}
}

// Values that can't be stored are hidden all the same, and can't be revealed.
func TestHidingFailsClosed(t *testing.T) {
	g := guard(Config{Store: broken{newMemory()}, Fields: []string{"name"}})
	if got := hideText(t, g, ada, "mail a@example.com"); got != "mail [EMAIL]" {
		t.Errorf(`got = %v, want "mail [EMAIL]"`, got)
	}
	r := tool.Text(false, `{"name":"Ada"}`)
	if err := g.Learn(t.Context(), ada, &tool.Tool{Upstream: "crm", Name: "get"}, r); err == nil ||
		tool.AsError(err).Kind != tool.Internal {
		t.Errorf("a program is given what can't be kept from models: %v", err)
	}
	full := guard(Config{Values: 2})
	if got := hideText(t, full, ada,
		"a@example.com b@example.com c@example.com a@example.com"); got != "[EMAIL_1] [EMAIL_2] [EMAIL] [EMAIL_1]" {
		t.Errorf(`got = %v, want "[EMAIL_1] [EMAIL_2] [EMAIL] [EMAIL_1]"`, got)
	}
}

type broken struct{ *memory }

func (broken) Number(context.Context, tool.Scope, int, []*Entry) error {
	return errors.New("the disk is full")
}

func TestLearnedValuesAreFoundAnywhere(t *testing.T) {
	g := guard(Config{})
	crm := &tool.Tool{Upstream: "crm", Name: "get",
		OutputSchema: json.RawMessage(`{"$defs":{"p":{"type":"object","properties":{"name":{"x-pii":"name"},` +
			`"mail":{"format":"email"}}}},"properties":{"people":{"items":{"$ref":"#/$defs/p"}}}}`)}
	r, err := tool.ParseResult(json.RawMessage(`{"content":[{"type":"text","text":"tel: 2125550147"}],` +
		`"structuredContent":{"people":[{"name":"Ada King","mail":"x"}]}}`))
	if err != nil {
		t.Fatalf("tool.ParseResult: %v", err)
	}
	if err := g.Learn(t.Context(), ada, crm, r); err != nil {
		t.Fatalf("Learn: %v", err)
	}
	if got := hideJSON(t, g, ada,
		`[2125550147,"2125550147","for Ada King!",{"Ada King":1},"Ada Kings"]`); strings.Contains(got, "2125550147") ||
		strings.Contains(got, "Ada King!") || strings.Contains(got, `"Ada King"`) ||
		!strings.Contains(got, "Ada Kings") {
		t.Errorf("got = %v", got)
	}
}

// In a text that contains JSON or source, a value after an escape is found, without the escape's
// letter.
func TestEscapesPartWords(t *testing.T) {
	g := guard(Config{Fields: []string{"name", "address"}})
	hideJSON(t, g, ada, `{"name":"Ada King","address":"12 \"High\" St\nLondon"}`)
	for _, text := range []string{
		`row {"t":"To\nada@example.com\r\nand\tbob@example.com"}`,
		`at "\u003cada@example.com\u003e" or \\nbob@example.com`, `row "call\n+44 20 7946 0958"`,
		`card\t4111 1111 1111 1111\n`,
		`for\nAda King\tnow`, `row {"a":"12 \"High\" St\nLondon"}`,
	} {
		got := hideText(t, g, ada, text)
		for _, value := range []string{"example", "44", "7946", "1111", "Ada", "High", "London"} {
			if strings.Contains(got, value) {
				t.Errorf("%s shows %s: %s", text, value, got)
			}
		}
	}
	if got := reveal(t, g, ada, `["`+hideText(t, g, ada, `x\nada@example.com`)+`"]`); got != `["x\nada@example.com"]` {
		t.Errorf("got = %v, want got == `[\"x\\nada@example.com\"]`", got)
	}
	if got := reveal(t, g, ada, `["`+strings.TrimPrefix(hideText(t, g, ada, `x: 12 \"High\" St\nLondon`), "x: ")+
		`"]`); got != `["12 \"High\" St\nLondon"]` {
		t.Errorf("got = %v, want got == `[\"12 \\\"High\\\" St\\nLondon\"]`", got)
	}
}

// An unreadable is a Store whose vaults can't be read.
type unreadable struct{ *memory }

func (unreadable) All(context.Context, tool.Scope, Kind) ([]Entry, error) {
	return nil, errors.New("the disk is gone")
}

func TestNothingIsShownOfWhatCantBeLookedInto(t *testing.T) {
	g := New(Config{Store: unreadable{newMemory()}, Log: slog.New(slog.DiscardHandler)})
	r := tool.Text(false, "for Ada King")
	s := g.Sheet(t.Context(), ada)
	s.Result(&r)
	s.Hide(t.Context())
	p := json.RawMessage(`{"type":"text","text":"for Ada King"}`)
	s.Block(&p)
	for _, got := range []string{hideText(t, g, ada, "for Ada King"), hideJSON(t, g, ada, `["Ada King"]`),
		string(r.Raw), string(p)} {
		if strings.Contains(got, "Ada") || !strings.Contains(got, "omitted") {
			t.Errorf(`got = %v, want !strings.Contains(got, "Ada") && strings.Contains(got, "omitted")`, got)
		}
	}
}

func TestBlocksThatAreNoText(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	block := func(g *Guard, raw string) string {
		p := json.RawMessage(raw)
		s := g.Sheet(t.Context(), ada)
		s.Block(&p)
		s.Hide(t.Context())
		return string(p)
	}
	g, open := guard(Config{}), guard(Config{Binaries: true})
	image := `{"type":"image","mimeType":"image/png","data":"` + b64([]byte("\x89PNG\x00")) + `"}`
	if got := block(g, image); !strings.Contains(got, "omitted") || strings.Contains(got, `"data"`) {
		t.Errorf("got = %v, want strings.Contains(got, \"omitted\") && !strings.Contains(got, `\"data\"`)", got)
	}
	for _, odd := range []string{strings.TrimSuffix(image, "}") + `,"Type":"text"}`,
		strings.Replace(image, `"image"`, `"text"`, 1), strings.Replace(image, "image/png", "a@example.com", 1)} {
		if got := block(g, odd); !strings.Contains(got, "omitted") || strings.Contains(got, `"data"`) ||
			strings.Contains(got, "example") {
			t.Errorf("got = %v, want strings.Contains(got, \"omitted\") && !strings.Contains(got, "+
				"`\"data\"`) && !strings.Contains(got, \"example\")", got)
		}
	}
	if got := block(open, image); got != image {
		t.Errorf("got = %v, want image", got)
	}
	got := block(g, `{"type":"resource","resource":{"uri":"file:///a@example.com.csv","mimeType":"text/csv","blob":"`+
		b64([]byte("to\na@example.com"))+`"}}`)
	if !strings.Contains(got, b64([]byte("to\n[EMAIL_2]"))) && !strings.Contains(got, b64([]byte("to\n[EMAIL_1]"))) ||
		strings.Contains(got, "a@example.com") {
		t.Errorf("got = %v", got)
	}
	if got := block(g, `{"type":"resource","resource":{"uri":"x","text":"a@example.com"}}`); strings.Contains(got,
		"a@example") {
		t.Errorf(`got = %v, want !strings.Contains(got, "a@example")`, got)
	}
	if got := block(g, `{"type":"resource","resource":{"uri":"x","blob":"`+b64([]byte{0, 1, 2})+
		`"}}`); !strings.Contains(got, "omitted") {
		t.Errorf(`got = %v, want strings.Contains(got, "omitted")`, got)
	}
}

// TestCutTexts tests halves of values, in texts that were truncated before they were checked.
func TestCutTexts(t *testing.T) {
	g := guard(Config{})
	for _, text := range []string{
		strings.Repeat("x ", 600) + "ada.lovela…", strings.Repeat("x ", 600) + "ada@exam… (99 more characters)",
		`{"to":"ada@exa…`, "card 4111 1111 11…", strings.Repeat("x ", 600) + "41111111…",
	} {
		got := hideText(t, g, ada, text)
		if strings.Contains(got, "ada") || strings.Contains(got, "4111") || !strings.Contains(got, "…") {
			t.Errorf("got[max(0, len(got)-60):] = %s, want !strings.Contains(got, \"ada\") && "+
				"!strings.Contains(got, \"4111\") && strings.Contains(got, \"…\")", got[max(0, len(got)-60):])
		}
	}
	if got := hideText(t, g, ada, "Loading… 12… done"); got != "Loading… 12… done" {
		t.Errorf(`got = %v, want "Loading… 12… done"`, got)
	}
}

func TestUnusedVaultsGo(t *testing.T) {
	clock, store := wallclock.At(time.Unix(1e9, 0)), newMemory()
	g := guard(Config{Store: store, Idle: time.Hour, Clock: clock})
	hideText(t, g, tool.Scope{Owner: "ada"}, "a@example.com")
	clock.Advance(2 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { g.Run(ctx); close(done) }()
	left := func() int {
		all, _ := store.All(ctx, tool.Scope{Owner: "ada"}, "")
		return len(all)
	}
	for deadline := time.Now().Add(2 * time.Minute); left() > 0 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	if left() > 0 {
		t.Error("a vault that nobody used is still there")
	}
	cancel()
	<-done
}

// FuzzHide checks that valid input results in valid output, that no e-mail address remains, and
// that revealing the tokens restores the meaning.
func FuzzHide(f *testing.F) {
	for _, s := range corpus(f) {
		if len(s.text)%7 == 0 {
			f.Add(s.text)
		}
	}
	f.Add(`{"a":"\u005bEMAIL_1]","b@example.com":[1e9,"…",{"phone":2125550147}]}`)
	f.Add("+" + strings.Repeat("1 ", 50) + "@@%40a@b.co…")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range findPersonal(text, noCue) {
			if m.Start < 0 || m.End > len(text) || m.Start >= m.End {
				t.Fatalf("m = %+v, want m.Start >= 0 && m.End <= len(text) && m.Start < m.End", m)
			}
		}
		g := guard(Config{Fields: []string{"**.name"}})
		out := hideText(t, g, ada, text)
		if utf8.ValidString(text) && !utf8.ValidString(out) {
			t.Errorf("%q is no text any more: %q", text, out)
		}
		if json.Valid([]byte(text)) {
			hidden := hideJSON(t, g, ada, text)
			if !json.Valid([]byte(hidden)) {
				t.Errorf("%q is no JSON any more: %q", text, hidden)
			}
			if back := reveal(t, g, ada, hidden); !json.Valid([]byte(back)) {
				t.Errorf("%q is no JSON when turned back: %q", hidden, back)
			}
		}
		if _, n := tokenAt(text + "]"); n > len(text)+1 {
			t.Error("a token that is longer than its text")
		}
	})
}

// BenchmarkFind reads the test set.
func BenchmarkFind(b *testing.B) {
	var all strings.Builder
	for _, s := range corpus(b) {
		all.WriteString(s.text + "\n")
	}
	b.SetBytes(int64(all.Len()))
	for b.Loop() {
		findPersonal(all.String(), noCue)
	}
}

// BenchmarkPlain reads JSON without personal data.
func BenchmarkPlain(b *testing.B) {
	text := "[" + strings.Repeat(`{"id":"a81bc81b-dead-4e5d-abff-90865d1e13b1","title":"A sentence of some words, as `+
		`texts have them.","count":17,"ok":true},`, 1000) + "1]"
	g := guard(Config{})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s := g.Sheet(b.Context(), ada)
		raw := json.RawMessage(text)
		s.JSON(&raw)
		s.Hide(b.Context())
	}
}
