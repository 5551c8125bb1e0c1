package audit

import (
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An OldRecord is half a call as Biplane recorded it before it had a tree. Digests are plain
// SHA-256, in hexadecimal.
type OldRecord struct {
	Record    string
	Ended     bool // whether it is the second half
	Time      time.Time
	Call      string
	Execution string
	Tool      string
	Principal string
	Client    string
	Decision  string
	Outcome   Outcome
	ErrorKind tool.Kind
	Error     string
	Digest    string // of the arguments, or of the result
	Size      int64
	Arguments string // the kept arguments
	Duration  time.Duration
}

// Addition converts o to a leaf, and keeps its digest. If o is the end of a call, first is the leaf
// of the beginning.
func (o *OldRecord) Addition(key *secret.Key, first *Addition) (*Addition, error) {
	a := &Addition{Record: o.Record, Part: PartBegun, Time: o.Time}
	c := &content{Version: formatVersion, Record: o.Record, Kind: KindCall, Time: FormatTime(o.Time)}
	keep := retention.NewKeeper(key, retention.Policy{})
	bytes := &bytesOf{Digest: "sha256:" + o.Digest, Size: o.Size}
	if o.Digest == "" {
		bytes = nil
	}
	if o.Ended {
		a.Part = PartEnded
		a.First, c.Begun = first, new(int64)
		c.Outcome, c.ErrorKind, c.Micros, c.Result = o.Outcome, o.ErrorKind, o.Duration.Microseconds(), bytes
		if o.Error != "" {
			c.Error = bytesFrom(keep.KeepMessage(&a.Keep, o.Error))
		}
	} else {
		c.Tool, c.Execution, c.Call, c.Principal, c.Client, c.Effect = o.Tool, o.Execution, o.Call, o.Principal,
			o.Client, o.Decision
		c.Upstream, _, _ = strings.Cut(o.Tool, ".")
		if bytes != nil && o.Arguments != "" {
			bytes.Kept = keep.KeepArguments(&a.Keep, []byte(o.Arguments)).Kept
		}
		c.Arguments = bytes
	}
	c.Part = a.Part
	var err error
	a.Leaf, err = c.encodeLeaf()
	return a, err
}
