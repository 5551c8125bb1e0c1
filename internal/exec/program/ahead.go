package program

import (
	"sync"
	"sync/atomic"
)

// An Ahead reads a program's text before it is known what it will run in. Reading needs no catalog,
// and takes longer than the other steps of preparing a program. It can run in parallel with
// whatever the program waits for.
type Ahead struct {
	q     Request
	once  sync.Once // sets read
	read  *reading  // nil: the text can't be read ahead
	taken atomic.Bool
}

// A reading is the result of assemble.
type reading struct {
	steps *steps
	made  *assembly
	err   *Error
}

// NewAhead returns an Ahead for the text of q. It uses only Source, Language and Session.
func NewAhead(q Request) *Ahead {
	return &Ahead{q: q}
}

// readText returns the reading of the text. It reads on the first call.
func (a *Ahead) readText() *reading {
	a.once.Do(func() {
		if checkSize(a.q.Source) != nil {
			return
		}
		language, e := languageOf(a.q)
		if e != nil || language == "python" {
			return
		}
		s, m, e := assemble(a.q.Source, modeOf(&a.q, language))
		a.read = &reading{s, m, e}
	})
	return a.read
}

// Read reads the text. If the program is prepared meanwhile, Prepare waits for it.
func (a *Ahead) Read() {
	defer func() { _ = recover() }() // Prepare has the same panic, and reports it
	a.readText()
}

// take returns the result to the first caller that prepares the program, and nil to all others.
func (a *Ahead) take(q *Request) *reading {
	if a == nil || a.q.Source != q.Source || a.q.Language != q.Language || a.q.Session != q.Session ||
		a.taken.Swap(true) {
		return nil
	}
	return a.readText()
}
