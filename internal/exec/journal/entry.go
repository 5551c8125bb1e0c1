package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A kind is the kind of an entry. An entry in a part is its kind, the length of its text (a varint)
// and the text.
type kind byte

const (
	begun     kind = 'b' // what was submitted: a Begin
	prepared  kind = 'p' // what is run: a Prepared
	line      kind = 'l' // a line sent to the guest, verbatim
	answer    kind = 'a' // the answer to a question from the guest, verbatim
	delivered kind = 'd' // the outcome of a call was sent to the guest: a delivery
	intent    kind = 'i' // a call is about to be sent: a sending
	outcome   kind = 'o' // the outcome of a call: an ending
	again     kind = 'r' // the process died before the guest sent anything: discard all that the guest received before
	resumed   kind = 'c' // another process took over, or the clock was stopped: a resumption
	planned   kind = 'w' // the writes that the program planned: a Planned
	ended     kind = 'e' // how the execution ended: an End
)

// A Begin is the input of an execution.
type Begin struct {
	Source   string        `json:"source"`             // as the agent sent it
	Language string        `json:"language,omitempty"` // as the agent named it
	Session  string        `json:"session,omitempty"`
	After    string        `json:"after,omitempty"`
	Timeout  time.Duration `json:"timeout"`
	Files    []File        `json:"files,omitempty"`   // attachments
	Mode     string        `json:"mode,omitempty"`    // "plan": the program is planned, not carried out
	Carries  *Planned      `json:"carries,omitempty"` // the plan that it carries out; nil: none
	// Principal is who started the execution, as of then. Its later calls have the same bounds as
	// its earlier ones.
	Principal tool.Principal `json:"principal"`
	Labels    []string       `json:"labels,omitempty"` // labels of the data that the submitter had read
	// Tier is the weakest tier that policy allowed. Sandbox is the kind of sandbox that it must run
	// in; empty: any.
	Tier    tool.Tier `json:"tier,omitempty"`
	Sandbox string    `json:"sandbox,omitempty"`
	Image   string    `json:"image,omitempty"` // image of the sandbox; empty: as the imports need
}

// A File is an attachment of a program. Its path is relative to ./workspace.
type File struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
}

// A Prepared is the program as the guest receives it, and the state that it starts from.
type Prepared struct {
	Code       string              `json:"-"` // this and the next five are stored in the line that starts the program
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
	Revision   int64               `json:"revision,omitempty"` // revision of the session; 0: it was new
	// Programs is the number of programs in the session's journal: its guest is in the state that
	// they left.
	Programs int    `json:"programs,omitempty"`
	Image    string `json:"image,omitempty"`   // image of its sandbox; empty: the default
	Sandbox  string `json:"sandbox,omitempty"` // kind of sandbox; empty: the only one that there was
}

// A Planned is the plan of a program that ended without writing anything. It also holds the inputs
// of the program other than its reads: carrying out the plan uses the same inputs.
type Planned struct {
	Plan json.RawMessage `json:"plan"` // a plan.Plan, in the form that is approved
	Seed string          `json:"seed"` // random seed
	At   int64           `json:"at"`   // time of day at the start, in milliseconds since 1970
}

// An End is the outcome of an execution.
type End struct {
	State     State           `json:"state"`
	Execution json.RawMessage `json:"execution,omitempty"` // in the form of biplane run --json
	Undefined bool            `json:"undefined,omitempty"`
	Answer    json.RawMessage `json:"answer,omitempty"` // the result of execute
	Labels    []string        `json:"labels,omitempty"` // labels of all data that it had read
	// Said is the digest of the guest's output (OutputDigest). It is empty unless the program ended
	// on its own.
	Said  string `json:"said,omitempty"`
	Texts []Text `json:"texts,omitempty"`
	At    int64  `json:"at"` // microseconds since 1970
}

// A Text is a field of End that is too large to be inline. It is stored by its digest.
type Text struct {
	Field  string `json:"field"`
	Digest string `json:"digest"`
}

// A delivery records that the outcome of a call was sent to the guest. The line is rebuilt from the
// outcome.
type delivery struct {
	ID       int64 `json:"id"`
	At       int64 `json:"at"` // milliseconds: HostMessage.At
	Question bool  `json:"question,omitempty"`
}

// A resumption records when a process took over the execution. The time since the previous entry
// doesn't count. If From is set, the time since From was spent waiting for people.
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
	Large      string          `json:"large,omitempty"` // digest under which the arguments are stored
	Digest     string          `json:"digest"`
	Asked      string          `json:"asked,omitempty"`
	Decision   string          `json:"decision,omitempty"`
	ReadOnly   bool            `json:"read_only,omitempty"`
	Idempotent bool            `json:"idempotent,omitempty"`
	Plan       *InPlan         `json:"plan,omitempty"`
	At         int64           `json:"at"` // microseconds
}

// An ending is the outcome of a call. It describes the call as well if there was no intent.
type ending struct {
	sending
	Value   json.RawMessage     `json:"value,omitempty"`
	Kept    string              `json:"kept,omitempty"` // digest under which the value is stored
	Failure *sandbox.GuestError `json:"failure,omitempty"`
	Blocks  []Block             `json:"blocks,omitempty"`
	KeptIn  string              `json:"kept_in,omitempty"` // digest under which the blocks are stored
	MS      int64               `json:"ms"`
	Bytes   int                 `json:"bytes"`
	Error   string              `json:"error,omitempty"`
	Kind    string              `json:"kind,omitempty"`
	From    string              `json:"from,omitempty"`
	Unsent  bool                `json:"unsent,omitempty"`
	Labels  []string            `json:"labels,omitempty"`
}

// appendEntry appends an entry to part.
func appendEntry(part []byte, k kind, text []byte) []byte {
	part = binary.AppendUvarint(append(part, byte(k)), uint64(len(text)))
	return append(part, text...)
}

// entries calls f with each entry of part.
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

var damaged = &tool.Error{Kind: tool.Conflict, Msg: "the journal of this execution is damaged"}

// answerLine returns the line that sends the outcome of a call to the guest.
func answerLine(id int64, value json.RawMessage, failure *sandbox.GuestError, at int64) ([]byte, error) {
	return tool.Marshal(sandbox.HostMessage{Answer: &sandbox.Answer{ID: id, Value: value, Error: failure}, At: at})
}
