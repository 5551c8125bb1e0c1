// Package session says what a session is while nothing of it runs: a Record, the State that the record holds, and blobs,
// which are snapshots of guests, the bytes of files, and the parts of a journal. The Store interface is what keeps them;
// package executor makes them live.
//
// A session changes by whole programs: all that a program has changed is one Change, which is saved as a whole or not at
// all. Blobs never change, and are there as long as a session refers to them, so that a fork is a second Record that
// refers to the same ones.
package session

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Record is one session. All of it but State may be read by whoever can read the store.
type Record struct {
	ID           string // random
	Owner        string // ID of the principal
	Name         string // unique among the sessions of the owner
	Revision     int64  // grows with each change
	Created      time.Time
	Used         time.Time
	Programs     int      // that ended well
	Languages    []string // of the guests: "typescript", "python"
	Engine       string   // what ran it last, for people
	StateBytes   int64    // of the snapshots
	FileBytes    int64    // of the files, unpacked
	Files        int      // files and directories
	JournalBytes int64
	Labels       []string // of what its programs have read, sorted; in lists only
	State        []byte   // an encoded State; nil in lists
}

// A Blob is bytes under a random name. They never change.
type Blob struct {
	ID   string
	Data []byte
}

// NewBlob names data.
func NewBlob(data []byte) Blob { return Blob{rand.Text(), data} }

// A Change is what one step makes of a session and of its owner's skills, all of it or nothing.
type Change struct {
	Record *Record // as it is now; its Revision is one more than that in the store, 1 for a new one. Nil: only skills change
	Add    []Blob  // new blobs, to which the session refers
	Refer  []string
	Drop   []string // blobs to which it doesn't refer any more; who has no other session that does is deleted
	// Append are blobs of Add that are the next parts of the session's journal, in their order in Add.
	Append []string
	// Journal is the ID of a session whose journal the new one takes over.
	Journal string
	// Forget drops the journal.
	Forget bool
	Owner  string // whose skills change
	Skills []SkillChange
}

// A Skill is a module that programs can import.
type Skill struct {
	Owner    string // who saved it
	Name     string // of the file: "retry.ts"
	Modified time.Time
	Source   []byte // nil in lists
	Shared   bool   // others see it as it was when a person shared it
	Changed  bool   // it is shared, and has changed since: what others see is older
}

// A SkillChange says what a skill has become.
type SkillChange struct {
	Name     string
	Source   []byte // nil: removed
	Modified time.Time
}

// A Store keeps sessions and skills. It is safe for concurrent use, but whoever changes a session sees to it that nobody
// else does meanwhile. Errors are *tool.Errors.
type Store interface {
	// Load gives a session; nil when there is none. A State that was changed by others is an error of kind conflict.
	Load(ctx context.Context, owner, name string) (*Record, error)
	// List gives the sessions of an owner, all where it is empty, without their State, by name.
	List(ctx context.Context, owner string) ([]Record, error)
	// Count gives how many sessions an owner has.
	Count(ctx context.Context, owner string) (int, error)
	// Save makes a change: when it returns, the death of this process loses nothing of it.
	Save(ctx context.Context, c *Change) error
	// End deletes a session and what only it refers to.
	End(ctx context.Context, r *Record) error

	// Labels gives the labels of a session, sorted, whether there is one of the name or not.
	Labels(ctx context.Context, owner, name string) ([]string, error)
	// Label adds labels to those of a session, which may not be there yet: when it returns, the death of this process loses nothing of
	// it. They go with the session's End. Those that were given before old to names of which there is no session are forgotten.
	Label(ctx context.Context, owner, name string, labels []string, now, old time.Time) error

	// Blob gives the bytes of a blob. One that is gone, or was changed by others, is an error of kind conflict.
	Blob(ctx context.Context, id string) ([]byte, error)
	// Journal names the parts of a session's journal, in their order.
	Journal(ctx context.Context, id string) ([]string, error)
	// Spool keeps a blob to which nothing refers, until Discard or the end of this process.
	Spool(ctx context.Context, b Blob) error
	// Discard deletes a blob to which nothing refers.
	Discard(ctx context.Context, id string) error

	// Skills gives the skills of an owner, and of those that others share (Owner says whose), as shared. Source is nil.
	Skills(ctx context.Context, owner string) (own, shared []Skill, err error)
	// Skill gives the source of a skill; that of another owner is the shared one.
	Skill(ctx context.Context, owner, name string, shared bool) ([]byte, error)
	// Share shares a skill as it is now, or takes it back. It gives false where there is no such skill.
	Share(ctx context.Context, owner, name string, shared bool) (bool, error)
}

// maxName is how long the name of a session may be.
const maxName = 64

// CheckName says what is wrong with the name of a session.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] != '.'
	for _, c := range []byte(name) {
		ok = ok && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-')
	}
	if !ok {
		return tool.Errorf(tool.Invalid, "%q is no name for a session: 1 to %d letters, digits and . _ -, not with a . first", prose.Cut(name, maxName), maxName)
	}
	return nil
}
