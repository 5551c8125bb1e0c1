package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
)

// FuzzDecode checks that any input is either rejected or decoded as by the official decoder, and
// that payloads are the input's bytes.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[],"n":9007199254740993}}`,
		`{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"no","data":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`,
		` [ {"jsonrpc":"2.0","id":1,"method":"ping"} , 17, {"jsonrpc":"2.0","id":2,"result":null} ] `,
		`{"result" : 1 , "id" : 2 , "jsonrpc":"2.0", "error":null}`,
		`{"\u006a\u0073onrpc":"2.0","id":1.0,"result":"\"}{"}`,
		`{"id":1,"error":"broken"}`, `{"a":{"b":[1,2,{"c":"]}"}]}}`, `{}`, `[]`, `null`, `{"id":1}`,
		`{"jsonrpc":"2.0","id":1e2,"method":""}`,
		"\f[]", strings.Repeat("[", 600), `{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeMessages(data)
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("understood what is not JSON")
		}
		for _, m := range got {
			for _, part := range parts(m) {
				if !bytes.Contains(data, part) || !json.Valid(part) {
					t.Fatalf("the payload %q is not in the message", part)
				}
			}
		}
		want, err := jsonrpc.DecodeMessage(data)
		if err != nil || len(got) != 1 {
			return
		}
		compare(t, got[0], want)
	})
}

func parts(m jsonrpc.Message) [][]byte {
	switch m := m.(type) {
	case *jsonrpc.Request:
		return nonEmpty(m.Params)
	case *jsonrpc.Response:
		return nonEmpty(m.Result)
	}
	return nil
}

func nonEmpty(p []byte) [][]byte {
	if len(p) == 0 {
		return nil
	}
	return [][]byte{p}
}

// compare compares our decoding with the official one. The official decoder rounds ids that are not
// integers; ours rejects them.
func compare(t *testing.T, got, want jsonrpc.Message) {
	t.Helper()
	switch want := want.(type) {
	case *jsonrpc.Request:
		g, ok := got.(*jsonrpc.Request)
		if !ok || g.Method != want.Method || !bytes.Equal(bytes.TrimSpace(g.Params), bytes.TrimSpace(want.Params)) ||
			g.ID != want.ID {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	case *jsonrpc.Response:
		g, ok := got.(*jsonrpc.Response)
		if !ok || (g.Error == nil) != (want.Error == nil) ||
			want.Error == nil && !bytes.Equal(bytes.TrimSpace(g.Result), bytes.TrimSpace(want.Result)) ||
			g.ID.IsValid() && g.ID != want.ID {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}

func TestDecodeDepth(t *testing.T) {
	deep := func(n int) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}")
	}
	if _, err := decodeMessages(deep(maxDepth - 1)); err != nil {
		t.Errorf("decodeMessages: %v", err)
	}
	if _, err := decodeMessages(deep(maxDepth)); !errors.Is(err, errDepth) {
		t.Errorf("got %v", err)
	}
	if m, err := decodeMessages([]byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("[",
		1000) + `"}`)); err != nil {
		t.Errorf("brackets in a string: %v %v", m, err)
	}
}

func TestBatchBound(t *testing.T) {
	batch := func(n int) []byte {
		return []byte("[" + strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"a"},`, n), ",") + "]")
	}
	if m, err := decodeMessages(batch(maxBatch)); err != nil || len(m) != maxBatch {
		t.Errorf("len(m) = %d, err = %v, want err == nil && len(m) == maxBatch", len(m), err)
	}
	if _, err := decodeMessages(batch(maxBatch + 1)); err == nil {
		t.Error("a batch that is too large was read")
	}
}

// FuzzEvents checks that an event never exceeds its limit, and that the result doesn't depend on
// how the stream is split.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"data: {}\n\n", "event: endpoint\ndata: /messages?x=1\n\n", "id: 1\nretry: 100\ndata:\n\ndata: a\ndata: b\n\n",
		"\xef\xbb\xbfdata: bom\r\n\r\n",
		"data: cr\r\rdata: next\r\r", ": comment\n\n\n\n", "data\n\n", "id: \x00\ndata: x\n\n", "data: cut off",
		"retry: -1\nfoo: bar\ndata:  two spaces\n\n",
		"data: " + strings.Repeat("x", 300) + "\n\n",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		const limit = 200
		whole, err1 := allEvents(bytes.NewReader(data), limit)
		pieces, err2 := allEvents(&cutReader{data, max(1, cut)}, limit)
		if errors.Is(err1, errEventSize) != errors.Is(err2, errEventSize) || len(whole) != len(pieces) {
			t.Fatalf("whole: %d events, %v; in pieces: %d, %v", len(whole), err1, len(pieces), err2)
		}
		for i := range whole {
			if len(whole[i].data) > limit+limit || whole[i].name != pieces[i].name || whole[i].id != pieces[i].id ||
				!bytes.Equal(whole[i].data, pieces[i].data) {
				t.Fatalf("event %d: %+v and %+v", i, whole[i], pieces[i])
			}
		}
	})
}

func allEvents(r io.Reader, limit int) (out []event, err error) {
	e := newEventReader(r, limit)
	for {
		ev, err := e.nextEvent()
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
}

// A cutReader returns n bytes per Read.
type cutReader struct {
	data []byte
	n    int
}

func (c *cutReader) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.n)], c.data)
	c.data = c.data[n:]
	return n, nil
}

func TestEvents(t *testing.T) {
	got, err := allEvents(strings.NewReader(
		"\xef\xbb\xbf: hi\nevent: a\nid: 7\nretry: 20\ndata: 1\ndata:2\n\nid: 8\n\ndata:\n\ndata: lost"), 100)
	if !errors.Is(err, io.EOF) || len(got) != 3 {
		t.Fatalf("err = %v, got = %+v, want errors.Is(err, io.EOF) && len(got) == 3", err, got)
	}
	if e := got[0]; e.name != "a" || e.id != "7" || e.retry != 20*time.Millisecond || string(e.data) != "1\n2" {
		t.Errorf("e = %+v, want e.name == \"a\" && e.id == \"7\" && e.retry == 20*time.Millisecond && "+
			"string(e.data) == \"1\\n2\"", e)
	}
	if e := got[1]; e.id != "8" || e.data != nil {
		t.Errorf(`e = %+v, want e.id == "8" && e.data == nil`, e)
	}
}

// TestEventAfterCR checks that an event whose lines end in CR is returned without waiting for more
// input.
func TestEventAfterCR(t *testing.T) {
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	go func() { _, _ = io.WriteString(w, "data: now\r\r") }()
	ev, err := newEventReader(r, 100).nextEvent()
	if err != nil || string(ev.data) != "now" {
		t.Errorf(`ev = %+v, err = %v, want err == nil && string(ev.data) == "now"`, ev, err)
	}
}

func TestOversizeID(t *testing.T) {
	pad := strings.Repeat("x", 500)
	for s, want := range map[string]int64{
		`{"jsonrpc":"2.0","id":12,"result":"` + pad:              12,
		`{"result":{"a":"` + pad + `"},"jsonrpc":"2.0","id":34}`: 34,
		`{"result":{"id":` + pad:                                 -1,
	} {
		id, ok := oversizeID([]byte(s), []byte(s))
		if want < 0 && ok || want >= 0 && id != want {
			t.Errorf("s = %.40s, id = %d, ok = %v, want (want >= 0 || !ok) && (want < 0 || id == want)", s, id, ok)
		}
	}
}

func TestCleanLine(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[31mred\x1b[0m text\r\n":              "red text",
		"\x1b]0;title\aafter":                      "after",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"a\tb\x00c\x7fd\u009be":                    "a bcde",
		"left\u202eright":                          "leftright",
		"\xff\xfe":                                 "\ufffd\ufffd",
		"\x1b":                                     "",
		"\x1b[31":                                  "",
		strings.Repeat("é", 100):                   strings.Repeat("é", 10) + "…",
	} {
		if got := cleanLine(in, 20); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestRing(t *testing.T) {
	m := mask.New()
	m.Add("hunter22")
	r := &ring{secrets: m}
	if r.lastAfter(0) != "" || len(r.allLines()) != 0 {
		t.Error("not empty")
	}
	r.copyLines(strings.NewReader(strings.Repeat("x", 1<<20) + "\n\n \nsecond hunter22\nlast, cut off"))
	if l := r.allLines(); len(l) != 3 || len(l[0]) > ringWidth+len("…") || l[1] != "second [redacted]" ||
		r.lastAfter(0) != "last, cut off" {
		t.Errorf("l = %.80q", l)
	}
	for i := range 3 * ringLines {
		r.addLine(strings.Repeat("y", i%7+1))
	}
	if l := r.allLines(); len(l) != ringLines || l[ringLines-1] != strings.Repeat("y", (3*ringLines-1)%7+1) {
		t.Errorf("%d lines, last %q", len(l), l[len(l)-1])
	}
}
