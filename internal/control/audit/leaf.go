package audit

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/tool"
)

// formatVersion is the version of the leaf format.
const formatVersion = 1

// content is a decoded leaf, with its members sorted by name. docs/audit.md documents the format: a
// member is never renamed, and its meaning never changes without a new version.
type content struct {
	Arguments *bytesOf          `json:"arguments,omitempty"`
	Begun     *int64            `json:"begun,omitempty"` // for a second half: index of the first; set by At
	Call      string            `json:"call,omitempty"`
	Client    string            `json:"client,omitempty"`
	Detail    map[string]string `json:"detail,omitempty"`
	Micros    int64             `json:"duration_us,omitempty"`
	Error     *bytesOf          `json:"error,omitempty"`
	ErrorKind tool.Kind         `json:"error_kind,omitempty"`
	Execution string            `json:"execution,omitempty"`
	File      string            `json:"file,omitempty"`
	Kind      Kind              `json:"kind"`
	Name      string            `json:"name,omitempty"`
	Outcome   Outcome           `json:"outcome,omitempty"`
	Part      string            `json:"part"`
	Principal string            `json:"principal,omitempty"`
	Record    string            `json:"record"`
	Result    *bytesOf          `json:"result,omitempty"`
	Seq       int64             `json:"seq"` // set by At
	Session   string            `json:"session,omitempty"`
	Time      string            `json:"time"` // RFC 3339, UTC, with microseconds
	Tool      string            `json:"tool,omitempty"`
	Upstream  string            `json:"upstream,omitempty"`
	Version   int               `json:"v"`

	decision
	decoded // by decodeLeaf
}

// decision has the members of a leaf that say how a policy decided.
type decision struct {
	Effect string `json:"effect,omitempty"`
	Policy string `json:"policy,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// newDecision returns d for a leaf.
func newDecision(d Decision) decision {
	return decision{Effect: cutText(d.Effect, nameBytes), Policy: cutText(d.Policy, nameBytes),
		Reason: cutText(d.Reason, messageBytes)}
}

// decoded is what decoding a leaf adds to its members.
type decoded struct {
	at        time.Time // its time
	canonical bool      // it is canonical JSON for certain
}

// bytesOf is a retention.Payload as it is in a leaf.
type bytesOf struct {
	Digest string `json:"digest"`
	Kept   string `json:"kept,omitempty"`
	Size   int64  `json:"size"`
}

const timeFormat = "2006-01-02T15:04:05.000000Z"

// bytesFrom returns p for a leaf, or nil if there is no data.
func bytesFrom(p retention.Payload) *bytesOf {
	if p.Digest == "" {
		return nil
	}
	return &bytesOf{p.Digest, p.Kept, p.Size}
}

func (b *bytesOf) toPayload() retention.Payload {
	if b == nil {
		return retention.Payload{}
	}
	return retention.Payload{Digest: b.Digest, Size: b.Size, Kept: b.Kept}
}

// encodeLeaf returns the leaf as canonical JSON (RFC 8785).
func (c *content) encodeLeaf() ([]byte, error) {
	if out, ok := c.encodeFast(); ok {
		return out, nil
	}
	whole := *c // encoding/json makes its argument escape to the heap
	raw, err := json.Marshal(&whole)
	if err != nil {
		return nil, fmt.Errorf("audit leaf: %w", err)
	}
	var members any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return nil, fmt.Errorf("audit leaf: %w", err)
	}
	out, err := tool.EncodeCanonical(members)
	if err != nil {
		return nil, fmt.Errorf("audit leaf: %w", err)
	}
	return out, nil
}

// encodeFast is encode for a leaf without anything to escape, as almost all are. The members are
// sorted, and numbers are integers.
func (c *content) encodeFast() ([]byte, bool) {
	size := 640
	if c.Part == PartEnded {
		size = 352
	}
	return c.appendFast(make([]byte, 0, size))
}

// appendFast appends the result of encodeFast to out.
func (c *content) appendFast(out []byte) ([]byte, bool) {
	w := writer{out: out, ok: true}
	w.writeBytes("arguments", c.Arguments)
	if c.Begun != nil {
		w.writeNumber("begun", *c.Begun)
	}
	w.writeTexts([]member{{"call", c.Call}, {"client", c.Client}})
	w.writeDetail(c.Detail)
	if c.Micros != 0 {
		w.writeNumber("duration_us", c.Micros)
	}
	w.writeTexts([]member{{"effect", c.Effect}})
	w.writeBytes("error", c.Error)
	w.writeTexts([]member{{"error_kind", string(c.ErrorKind)}, {"execution", c.Execution}, {"file", c.File}})
	w.writeText("kind", string(c.Kind))
	w.writeTexts([]member{{"name", c.Name}, {"outcome", string(c.Outcome)}})
	w.writeText("part", c.Part)
	w.writeTexts([]member{{"policy", c.Policy}, {"principal", c.Principal}, {"reason", c.Reason}})
	w.writeText("record", c.Record)
	w.writeBytes("result", c.Result)
	w.writeNumber("seq", c.Seq)
	w.writeTexts([]member{{"session", c.Session}})
	w.writeText("time", c.Time)
	w.writeTexts([]member{{"tool", c.Tool}, {"upstream", c.Upstream}})
	w.writeNumber("v", int64(c.Version))
	return append(w.out, '}'), w.ok
}

// A writer writes members of objects that need no escapes. ok is false once one does.
type writer struct {
	out []byte
	ok  bool
}

type member struct{ name, value string }

// writeTexts writes members, without the empty ones.
func (w *writer) writeTexts(all []member) {
	for _, m := range all {
		if m.value != "" {
			w.writeText(m.name, m.value)
		}
	}
}

func (w *writer) writeName(name string) {
	c := byte('{')
	if n := len(w.out); n > 0 && w.out[n-1] != '{' {
		c = ','
	} else if n > 0 { // the first member of a nested object
		w.out = w.out[:n-1]
	}
	w.out = append(append(append(w.out, c, '"'), name...), '"', ':')
}

func (w *writer) writeText(name, value string) {
	w.writeName(name)
	w.out = append(append(append(w.out, '"'), value...), '"')
	w.checkLast(len(value))
}

func (w *writer) writeNumber(name string, n int64) {
	w.writeName(name)
	w.out = strconv.AppendInt(w.out, n, 10)
	w.ok = w.ok && -1<<53 < n && n < 1<<53 // RFC 8785 formats larger numbers differently
}

func (w *writer) writeBytes(name string, b *bytesOf) {
	if b == nil {
		return
	}
	w.writeName(name)
	w.out = append(w.out, '{')
	w.writeText("digest", b.Digest)
	w.writeTexts([]member{{"kept", b.Kept}})
	w.writeNumber("size", b.Size)
	w.out = append(w.out, '}')
}

func (w *writer) writeDetail(d map[string]string) {
	if len(d) == 0 {
		return
	}
	w.writeName("detail")
	w.out = append(w.out, '{')
	for _, k := range slices.Sorted(maps.Keys(d)) {
		w.ok = w.ok && isPlain([]byte(k))
		w.writeText(k, d[k])
	}
	w.out = append(w.out, '}')
}

// checkLast checks whether the last string written, n bytes long, needs no escapes.
func (w *writer) checkLast(n int) {
	end := len(w.out) - 1
	w.ok = w.ok && isPlain(w.out[end-n:end])
}

// isPlain reports whether a string needs no escapes: it is printable ASCII without quotes and
// backslashes.
func isPlain(s []byte) bool { return isPrintable(s, '"') }

// isPrintable reports whether s is printable ASCII without backslashes and without c. It checks
// eight bytes at a time.
func isPrintable(s []byte, c byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	zero := func(x uint64) uint64 { return (x - ones) &^ x } // the high bits tell whether a byte is zero
	without := uint64(c) * ones
	for ; len(s) >= 8; s = s[8:] {
		x := binary.LittleEndian.Uint64(s)
		if (x|(x-' '*ones)&^x|zero(x^without)|zero(x^'\\'*ones)|zero(x^0x7f*ones))&highs != 0 {
			return false
		}
	}
	for _, b := range s {
		if b < ' ' || b > '~' || b == c || b == '\\' {
			return false
		}
	}
	return true
}

// Placeholders for indexes in a leaf that are not known yet. Within a JSON string their quotes
// would be escaped, so the bytes can't occur elsewhere.
const (
	unplaced = `"seq":0`
	unpaired = `"begun":0`
)

// LeafAt returns the addition's leaf for index seq of the log.
func (a *Addition) LeafAt(seq int64) ([]byte, error) {
	return a.AppendAt(make([]byte, 0, len(a.Leaf)+40), seq)
}

// AppendAt appends the result of At to out.
func (a *Addition) AppendAt(out []byte, seq int64) ([]byte, error) {
	rest := a.Leaf
	ok := true
	if a.First != nil {
		if out, rest, ok = fillNumber(out, rest, unpaired, a.First.Seq); !ok {
			return nil, fmt.Errorf("audit record %s: the leaf has no place for the index of its first half", a.Record)
		}
	}
	if out, rest, ok = fillNumber(out, rest, unplaced, seq); !ok {
		return nil, fmt.Errorf("audit record %s: the leaf has no place for its index", a.Record)
	}
	return append(out, rest...), nil
}

// fillNumber appends the leaf to out, up to a placeholder, whose final 0 it replaces with n. It
// returns the remaining bytes.
func fillNumber(out, leaf []byte, place string, n int64) (_, rest []byte, ok bool) {
	i := bytes.Index(leaf, []byte(place))
	if i < 0 {
		return out, leaf, false
	}
	i += len(place) - 1
	return strconv.AppendInt(append(out, leaf[:i]...), n, 10), leaf[i+1:], true
}

// decodeLeaf decodes a leaf. It refuses unknown members, other versions, invalid times and
// trailing data.
func decodeLeaf(leaf []byte) (*content, error) {
	c, ok := decodePlain(leaf)
	if !ok {
		c = &content{}
		d := json.NewDecoder(bytes.NewReader(leaf))
		d.DisallowUnknownFields()
		if err := d.Decode(c); err != nil {
			return nil, fmt.Errorf("no leaf: %w", err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("a leaf with more data after its end")
		}
	}
	if err := c.checkForm(); err != nil {
		return nil, err
	}
	return c, nil
}

// checkForm checks the version and the time of a decoded leaf, and sets at.
func (c *content) checkForm() (err error) {
	if c.Version != formatVersion {
		return fmt.Errorf("unknown leaf version %d: a newer biplane wrote it", c.Version)
	}
	if c.at, err = parseLeafTime(c.Time); err != nil {
		return fmt.Errorf("a leaf without a time")
	}
	return nil
}

// decodeContent is decodeLeaf of the leaf's data, unless the store has decoded it already.
func (l *Leaf) decodeContent() (*content, error) {
	if l.decoded != nil {
		return l.decoded, nil
	}
	return decodeLeaf(l.Data)
}

// parseLeafTime parses a time in timeFormat.
func parseLeafTime(s string) (time.Time, error) {
	const form = "0000-00-00T00:00:00.000000Z"
	if len(s) != len(form) {
		return time.Parse(timeFormat, s)
	}
	for i := range len(form) {
		if form[i] == '0' && (s[i] < '0' || s[i] > '9') || form[i] != '0' && s[i] != form[i] {
			return time.Parse(timeFormat, s)
		}
	}
	number := func(from, to int) (n int) {
		for _, c := range []byte(s[from:to]) {
			n = 10*n + int(c-'0')
		}
		return n
	}
	month, day, hour, minute, second := number(5, 7), number(8, 10), number(11, 13), number(14, 16), number(17, 19)
	if month < 1 || month > 12 || day < 1 || day > 28 || hour > 23 || minute > 59 || second > 59 {
		return time.Parse(timeFormat, s) // it knows how long months are
	}
	return time.Date(number(0, 4), time.Month(month), day, hour, minute, second, 1000*number(20, 26), time.UTC), nil
}

// toRecord returns the Record of a pair with the contents c and e. e is nil if there is no second
// half.
func (p *Pair) toRecord(c, e *content) *Record {
	r := &Record{
		ID: c.Record, Seq: p.Begun.Seq, Kind: c.Kind, Time: c.at, Principal: c.Principal, Client: c.Client,
		Subject: Subject{Tool: c.Tool, Upstream: c.Upstream, Execution: c.Execution, Call: c.Call, Session: c.Session,
			File: c.File, Name: c.Name},
		Decision: Decision{Effect: c.Effect, Policy: c.Policy,
			Reason: c.Reason}, Arguments: c.Arguments.toPayload(), Detail: c.Detail,
	}
	if c.Part == PartEvent {
		r.End = End{Seq: p.Begun.Seq, Time: r.Time, Outcome: c.Outcome, ErrorKind: c.ErrorKind}
	}
	if e == nil {
		return r
	}
	r.End = End{
		Seq: p.Ended.Seq, Time: e.at, Outcome: e.Outcome, ErrorKind: e.ErrorKind,
		Error: e.Error.toPayload(), Result: e.Result.toPayload(), Duration: time.Duration(e.Micros) * time.Microsecond,
	}
	if r.Detail == nil {
		r.Detail = e.Detail
	} else {
		maps.Copy(r.Detail, e.Detail)
	}
	return r
}

// FormatTime formats a time as in leaves: RFC 3339 in UTC, with microseconds.
func FormatTime(t time.Time) string { return t.UTC().Format(timeFormat) }
