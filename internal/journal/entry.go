package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A kind says what an entry is. In a part an entry is its kind, the length of its text (a varint) and the text.
type kind byte

const (
	begun     kind = 'b' // what was sent: a Begin
	prepared  kind = 'p' // what runs: a Prepared
	line      kind = 'l' // a line that the guest was told, as it was
	answer    kind = 'a' // the answer to a question of the guest, as it was
	delivered kind = 'd' // the outcome of a call was told to the guest: a delivery
	intent    kind = 'i' // a call is about to leave: a sending
	outcome   kind = 'o' // what came of a call: an ending
	again     kind = 'r' // its process died before the guest said anything: what it heard before is void
	resumed   kind = 'c' // another process goes on, or its time has stood still: a resumption
	planned   kind = 'w' // what the program would write: a Planned
	ended     kind = 'e' // how it ended: an End
)

// A Begin is what an execution was begun with.
type Begin struct {
	Source   string        `json:"source"`             // as the agent sent it
	Language string        `json:"language,omitempty"` // as the agent named it
	Session  string        `json:"session,omitempty"`
	After    string        `json:"after,omitempty"`
	Timeout  time.Duration `json:"timeout"`
	Files    []File        `json:"files,omitempty"`   // that were sent along
	Mode     string        `json:"mode,omitempty"`    // "plan": it is planned
	Carries  *Planned      `json:"carries,omitempty"` // the plan that it carries out; nil: none
	// Principal is who began it, as it was then: calls that it makes later are bounded as those before were.
	Principal tool.Principal `json:"principal"`
	Labels    []string       `json:"labels,omitempty"` // of what whoever sent it had read
}

// A File is one that was sent along with a program, by its path below ./workspace.
type File struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
}

// A Prepared is what the guest is given, and the state that it begins from.
type Prepared struct {
	Code       string              `json:"-"` // this and the next five are those of the line that begins the program
	Name       string              `json:"-"`
	Line       int                 `json:"-"`
	Namespaces map[string][]string `json:"-"`
	Aliases    map[string]string   `json:"-"`
	Whole      []string            `json:"-"`
	Runtime    string              `json:"runtime"`
	Declared   []string            `json:"declared,omitempty"`
	Notes      []string            `json:"notes,omitempty"`
	Remark     string              `json:"remark,omitempty"`
	InSession  bool                `json:"in_session,omitempty"`
	Known      []string            `json:"known,omitempty"`    // names that earlier programs of the session declared
	Session    string              `json:"session,omitempty"`  // the session's ID; empty: there is none, or it was new
	Revision   int64               `json:"revision,omitempty"` // of the session; 0: it was new
	Programs   int                 `json:"programs,omitempty"` // how many programs the session's journal had: its guest is what they left
}

// A Planned is the plan of a program that has come to its end without writing anything, and what the program saw beside what it read: it
// sees that again when the plan is carried out.
type Planned struct {
	Plan json.RawMessage `json:"plan"` // a plan.Plan, as it is approved
	Seed string          `json:"seed"` // of its randomness
	At   int64           `json:"at"`   // the time of day at its beginning, in milliseconds since 1970
}

// An End is how an execution ended.
type End struct {
	State     State           `json:"state"`
	Execution json.RawMessage `json:"execution,omitempty"` // in the shape of biplane run --json
	Undefined bool            `json:"undefined,omitempty"`
	Answer    json.RawMessage `json:"answer,omitempty"` // the result of execute
	Labels    []string        `json:"labels,omitempty"` // of all that it had read
	Said      string          `json:"said,omitempty"`   // the digest of all that the guest said (Voice); empty where it did not end by itself
	Texts     []Text          `json:"texts,omitempty"`
	At        int64           `json:"at"` // microseconds since 1970
}

// A Text is one of End's that is kept by its digest, since it is large.
type Text struct {
	Field  string `json:"field"`
	Digest string `json:"digest"`
}

// A delivery tells the guest of an outcome. Its line is made again from that.
type delivery struct {
	ID       int64 `json:"id"`
	At       int64 `json:"at"` // milliseconds: HostMessage.At
	Question bool  `json:"question,omitempty"`
}

// A resumption says when a process took the execution up: nothing ran between that and the entry before it. With From it says that people were waited
// for since then.
type resumption struct {
	At   int64 `json:"at"` // microseconds since 1970
	From int64 `json:"from,omitempty"`
}

// A sending is the intent of a call.
type sending struct {
	N          int             `json:"n"`
	ID         int64           `json:"id"`
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Large      string          `json:"large,omitempty"` // the digest under which the arguments are kept
	Digest     string          `json:"digest"`
	Asked      string          `json:"asked,omitempty"`
	Decision   string          `json:"decision,omitempty"`
	ReadOnly   bool            `json:"read_only,omitempty"`
	Idempotent bool            `json:"idempotent,omitempty"`
	Plan       *InPlan         `json:"plan,omitempty"`
	At         int64           `json:"at"` // microseconds
}

// An ending is what came of a call. The call is named again where it had no intent.
type ending struct {
	sending
	Value   json.RawMessage     `json:"value,omitempty"`
	Kept    string              `json:"kept,omitempty"` // the digest under which the value is kept
	Failure *sandbox.GuestError `json:"failure,omitempty"`
	Blocks  []Block             `json:"blocks,omitempty"`
	KeptIn  string              `json:"kept_in,omitempty"` // of the blocks
	MS      int64               `json:"ms"`
	Bytes   int                 `json:"bytes"`
	Error   string              `json:"error,omitempty"`
	Kind    string              `json:"kind,omitempty"`
	From    string              `json:"from,omitempty"`
	Unsent  bool                `json:"unsent,omitempty"`
	Labels  []string            `json:"labels,omitempty"`
}

// appendEntry adds an entry to a part.
func appendEntry(part []byte, k kind, text []byte) []byte {
	part = binary.AppendUvarint(append(part, byte(k)), uint64(len(text)))
	return append(part, text...)
}

// entries gives the entries of a part to f.
func entries(part []byte, f func(k kind, text []byte) error) error {
	for len(part) > 0 {
		n, size := binary.Uvarint(part[1:])
		if size <= 0 || n > uint64(len(part)-1-size) {
			return damaged
		}
		text := part[1+size:][:n:n]
		if bytes.IndexByte(text, '\n') >= 0 {
			return damaged
		}
		if err := f(kind(part[0]), text); err != nil {
			return err
		}
		part = part[1+size+int(n):]
	}
	return nil
}

var damaged = tool.Errorf(tool.Conflict, "the journal of this execution is damaged")

// answerLine is the line by which a guest is told of what came of a call.
func answerLine(id int64, value json.RawMessage, failure *sandbox.GuestError, at int64) ([]byte, error) {
	return tool.Marshal(sandbox.HostMessage{Answer: &sandbox.Answer{ID: id, Value: value, Error: failure}, At: at})
}
