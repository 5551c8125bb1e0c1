package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/biplane-dev/biplane/internal/tool"
)

// formatVersion is the version of the leaves' format.
const formatVersion = 1

// content is a leaf before it is bytes. docs/audit.md is the description for others: a member is never renamed, and never
// comes to mean another thing without another version.
type content struct {
	Version   int               `json:"v"`
	Seq       int64             `json:"seq"` // written by place
	Part      string            `json:"part"`
	Record    string            `json:"record"`
	Kind      Kind              `json:"kind"`
	Time      string            `json:"time"` // RFC 3339, UTC, with microseconds
	Principal string            `json:"principal,omitempty"`
	Client    string            `json:"client,omitempty"`
	Tool      string            `json:"tool,omitempty"`
	Upstream  string            `json:"upstream,omitempty"`
	Execution string            `json:"execution,omitempty"`
	Call      string            `json:"call,omitempty"`
	Session   string            `json:"session,omitempty"`
	File      string            `json:"file,omitempty"`
	Name      string            `json:"name,omitempty"`
	Effect    string            `json:"effect,omitempty"`
	Policy    string            `json:"policy,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Arguments *bytesOf          `json:"arguments,omitempty"`
	Detail    map[string]string `json:"detail,omitempty"`
	Begun     *int64            `json:"begun,omitempty"` // of an end: the index of its first half
	Outcome   Outcome           `json:"outcome,omitempty"`
	ErrorKind tool.Kind         `json:"error_kind,omitempty"`
	Error     *bytesOf          `json:"error,omitempty"`
	Result    *bytesOf          `json:"result,omitempty"`
	Micros    int64             `json:"duration_us,omitempty"`
}

// bytesOf is a Payload in a leaf.
type bytesOf struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	Kept   string `json:"kept,omitempty"`
}

const timeFormat = "2006-01-02T15:04:05.000000Z"

func (p Payload) bytesOf() *bytesOf {
	if p.Digest == "" {
		return nil
	}
	return &bytesOf{p.Digest, p.Size, p.Kept}
}

func (b *bytesOf) payload() Payload {
	if b == nil {
		return Payload{}
	}
	return Payload{b.Digest, b.Size, b.Kept}
}

// encode gives the leaf as canonical JSON, with the index 0.
func (c *content) encode() ([]byte, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("audit leaf: %w", err)
	}
	out, err := jcs.Transform(raw)
	if err != nil {
		return nil, fmt.Errorf("audit leaf: %w", err)
	}
	return out, nil
}

// unplaced is the index in a leaf that has none yet. Inside of a JSON string its quotes would be escaped, so that the
// bytes can't be of anything else.
const unplaced = `"seq":0`

// At gives the addition's leaf as it is at index seq of the log.
func (a *Addition) At(seq int64) ([]byte, error) {
	i := bytes.Index(a.Leaf, []byte(unplaced))
	if i < 0 {
		return nil, fmt.Errorf("audit record %s: the leaf has no place for its index", a.Record)
	}
	i += len(unplaced) - 1
	out := make([]byte, 0, len(a.Leaf)+20)
	out = strconv.AppendInt(append(out, a.Leaf[:i]...), seq, 10)
	return append(out, a.Leaf[i+1:]...), nil
}

// decode reads a leaf. It takes only what encode writes: whoever can write other bytes was not us.
func decode(leaf []byte) (*content, error) {
	c := &content{}
	d := json.NewDecoder(bytes.NewReader(leaf))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("no leaf: %w", err)
	}
	if c.Version != formatVersion {
		return nil, fmt.Errorf("a leaf of version %d, which this biplane doesn't know", c.Version)
	}
	if _, err := time.Parse(timeFormat, c.Time); err != nil {
		return nil, fmt.Errorf("a leaf without a time")
	}
	return c, nil
}

// when is the leaf's time; decode has checked it.
func (c *content) when() time.Time {
	t, _ := time.Parse(timeFormat, c.Time)
	return t
}

// record makes a Record of its leaves.
func (p *Pair) record() (*Record, error) {
	c, err := decode(p.Begun.Data)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "audit record at index %d can't be read: run biplane audit verify: %w", p.Begun.Seq, err)
	}
	r := &Record{
		ID: c.Record, Seq: p.Begun.Seq, Kind: c.Kind, Time: c.when(), Principal: c.Principal, Client: c.Client,
		Subject:  Subject{Tool: c.Tool, Upstream: c.Upstream, Execution: c.Execution, Call: c.Call, Session: c.Session, File: c.File, Name: c.Name},
		Decision: Decision{Effect: c.Effect, Policy: c.Policy, Reason: c.Reason}, Arguments: c.Arguments.payload(), Detail: c.Detail,
	}
	if c.Part == PartEvent {
		r.End = End{Seq: p.Begun.Seq, Time: r.Time, Outcome: c.Outcome, ErrorKind: c.ErrorKind}
	}
	if p.Ended.Data == nil {
		return r, nil
	}
	e, err := decode(p.Ended.Data)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "audit record at index %d can't be read: run biplane audit verify: %w", p.Ended.Seq, err)
	}
	r.End = End{
		Seq: p.Ended.Seq, Time: e.when(), Outcome: e.Outcome, ErrorKind: e.ErrorKind,
		Error: e.Error.payload(), Result: e.Result.payload(), Duration: time.Duration(e.Micros) * time.Microsecond,
	}
	return r, nil
}

// Stamp is a time as leaves have it: RFC 3339 in UTC, with microseconds.
func Stamp(t time.Time) string { return t.UTC().Format(timeFormat) }
