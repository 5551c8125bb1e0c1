package program

import (
	"sync"
	"sync/atomic"
)

// An Ahead is the text of a program that is known before anything is there that it could run in. Reading it needs no catalog, takes
// longer than all else that is done to it, and can be done beside what the program waits for.
type Ahead struct {
	q     Request
	read  func() *reading
	taken atomic.Bool
}

// A reading is what assemble gives.
type reading struct {
	steps *steps
	made  *made
	err   *Error
}

// NewAhead names the text of q. Of q only Source, Language and Session matter.
func NewAhead(q Request) *Ahead {
	return &Ahead{q: q, read: sync.OnceValue(func() *reading {
		if checkSize(q.Source) != nil {
			return nil
		}
		language, e := languageOf(q)
		if e != nil || language == "python" {
			return nil
		}
		s, m, e := assemble(q.Source, modeOf(&q, language))
		return &reading{s, m, e}
	})}
}

// Read reads the text, which whoever prepares the program meanwhile waits for.
func (a *Ahead) Read() {
	defer func() { _ = recover() }() // whoever prepares the program has the same panic, and says so
	a.read()
}

// take gives what came of it to the first who prepares the program, nil to anybody else.
func (a *Ahead) take(q *Request) *reading {
	if a == nil || a.q.Source != q.Source || a.q.Language != q.Language || a.q.Session != q.Session || a.taken.Swap(true) {
		return nil
	}
	return a.read()
}
