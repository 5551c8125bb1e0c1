// Package session defines sessions at rest. A session is a Record, the State in it, and blobs:
// snapshots of guests, contents of files, and parts of a journal. A Store keeps them. Package live
// keeps sessions in memory.
//
// A session changes by whole programs: the changes of a program form one Change, which is saved
// atomically. Blobs are immutable, and exist as long as a session refers to them. So a fork is a
// second Record that refers to the same blobs.
package session

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Record describes a session. Anyone who can read the store can read everything but State.
type Record struct {
	ID           string // random
	Owner        string // ID of the principal
	Name         string // unique among the sessions of the owner
	Revision     int64  // incremented by each change
	Created      time.Time
	Used         time.Time
	Programs     int      // number of programs that succeeded
	Languages    []string // languages of the guests: "typescript", "python"
	Engine       string   // engine of the last program, for display
	StateBytes   int64    // size of the snapshots
	FileBytes    int64    // uncompressed size of the files
	Files        int      // number of files and directories
	JournalBytes int64
	Labels       []string // labels of the data that its programs have read, sorted; in lists only
	State        []byte   // an encoded State; nil in lists
}

// A Blob is immutable data with a random name.
type Blob struct {
	ID   string
	Data []byte
}

// NewBlob returns a blob that holds data.
func NewBlob(data []byte) Blob { return Blob{rand.Text(), data} }

// A Change is an atomic change of a session and of its owner's skills.
type Change struct {
	// Record is the new record. Its Revision is one more than in the store, 1 for a new session.
	// Nil: only skills change.
	Record *Record
	Add    []Blob   // new blobs that the session refers to
	Refer  []string // existing blobs that the session refers to, too
	Drop   []string // blobs that the session no longer refers to; they are deleted if no other session does
	// Append lists the blobs in Add that are the next parts of the session's journal, in the order
	// of Add.
	Append []string
	// Journal is the ID of a session whose journal the new session inherits.
	Journal string
	// Forget deletes the journal.
	Forget bool
	Owner  string // owner of the skills
	Skills []SkillChange
}

// A Skill is a module that programs can import.
type Skill struct {
	Owner    string // owner, who saved it
	Name     string // file name: "retry.ts"
	Modified time.Time
	Source   []byte // nil in lists
	Shared   bool   // others see it as of when it was shared
	Changed  bool   // it has changed since it was shared: others see an older version
}

// A SkillChange is a change of a skill.
type SkillChange struct {
	Name     string
	Source   []byte // nil: removed
	Modified time.Time
}

// A Store keeps sessions and skills. It is safe for concurrent use, but callers must not change a
// session concurrently. All errors are *tool.Errors.
type Store interface {
	Records
	Labels
	Blobs
	Skills
}

// Records keeps the records of sessions, and makes changes.
type Records interface {
	// Load returns a session, or nil if there is none. If its State was tampered with, the error
	// has kind conflict.
	Load(ctx context.Context, owner, name string) (*Record, error)
	// List returns the sessions of an owner by name, without their State. An empty owner means all
	// owners.
	List(ctx context.Context, owner string) ([]Record, error)
	// Count returns the number of sessions of an owner.
	Count(ctx context.Context, owner string) (int, error)
	// Save applies a change. When it returns, the change survives the death of this process.
	Save(ctx context.Context, c *Change) error
	// End deletes a session and everything that only it refers to.
	End(ctx context.Context, r *Record) error
}

// Labels keeps the labels of the data that the programs of a session have read.
type Labels interface {
	// Labels returns the labels of a session, sorted. The session need not exist.
	Labels(ctx context.Context, owner, name string) ([]string, error)
	// Label adds labels to a session, which need not exist yet. When it returns, they survive the
	// death of this process. End deletes them. Labels added before old for sessions that don't
	// exist are deleted.
	Label(ctx context.Context, owner, name string, labels []string, now, old time.Time) error
}

// Blobs keeps blobs, and the order of the parts of each journal.
type Blobs interface {
	// Blob returns the data of a blob. If it is missing or was tampered with, the error has kind
	// conflict.
	Blob(ctx context.Context, id string) ([]byte, error)
	// Journal returns the IDs of the parts of a session's journal, in order.
	Journal(ctx context.Context, id string) ([]string, error)
	// Spool stores an unreferenced blob until Discard or until this process ends.
	Spool(ctx context.Context, b Blob) error
	// Discard deletes an unreferenced blob.
	Discard(ctx context.Context, id string) error
}

// Skills keeps the modules that programs save. Store.Save changes them.
type Skills interface {
	// Skills returns the skills of an owner, and the skills that other owners share, as they were
	// shared. Source is nil.
	Skills(ctx context.Context, owner string) (own, shared []Skill, err error)
	// Skill returns the source of a skill. For another owner's skill, it is the shared version.
	Skill(ctx context.Context, owner, name string, shared bool) ([]byte, error)
	// Share shares the current version of a skill, or stops sharing it. It returns false if there
	// is no such skill.
	Share(ctx context.Context, owner, name string, shared bool) (bool, error)
}

// maxName is the maximum length of a session's name in bytes.
const maxName = 64

// CheckName returns an error if name is not a valid session name.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] != '.'
	for _, c := range []byte(name) {
		ok = ok && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' ||
			c == '_' || c == '-')
	}
	if !ok {
		return tool.Errorf(tool.Invalid,
			"%q is no name for a session: 1 to %d letters, digits and . _ -, not with a . first",
			text.Cut(name, maxName), maxName)
	}
	return nil
}
