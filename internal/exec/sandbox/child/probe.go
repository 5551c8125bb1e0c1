package child

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Attempt is an escape attempt by a guest that has taken over its engine's process, and its
// outcome.
type Attempt struct {
	Name    string `json:"name"`    // "read /etc/passwd"
	Refused bool   `json:"refused"` // as it must be
	How     string `json:"how"`     // the system's error, the signal that killed the process, or what was obtained
}

// An attempt is an Attempt that has not been made yet.
type attempt struct {
	name string
	// try makes the attempt. It returns what it obtained, or how it was refused.
	try func() (got string, refused error)
}

// TryEscapes starts children with the given command and the same protections as a Driver's, and
// makes every attempt in one of them. It returns the attempts and the armed protections.
func TryEscapes(ctx context.Context, command []string) ([]Attempt, []Protection, error) {
	s := newStarter(command, nil)
	defer s.close()
	var done []Attempt
	var armed []Protection
	list := attempts()
	for len(done) < len(list) {
		if ctx.Err() != nil {
			return done, armed, context.Cause(ctx)
		}
		more, ps, err := s.tryFrom(ctx, list, len(done))
		if err != nil {
			return done, armed, err
		}
		done, armed = append(done, more...), ps
	}
	return done, armed, nil
}

// tryFrom makes the attempts of list in one child, starting with the n-th, until the child ends.
func (s *starter) tryFrom(ctx context.Context, list []attempt, n int) ([]Attempt, []Protection, error) {
	p, err := s.start(probeFlag + strconv.Itoa(n))
	if err != nil {
		return nil, nil, tool.Errorf(tool.Unavailable, "can't start the engine's process: %w", err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	unhook := context.AfterFunc(ctx, p.kill)
	defer unhook()
	in := newReader(p)
	h, err := parseHello(in.next())
	if err == nil && h.Error != "" {
		err = tool.Errorf(tool.Unavailable, "the engine's process can't serve: %s", h.Error)
	}
	if err != nil {
		p.kill()
		return nil, nil, tool.Errorf(tool.Unavailable, "the engine's process %s: %w", p.wait(), err)
	}
	var done []Attempt
	for ; n < len(list); n++ {
		a := Attempt{Name: list[n].name}
		f, err := in.next()
		if err != nil { // the attempt killed the process
			p.kill()
			a.How = p.wait()
			a.Refused = strings.Contains(a.How, "SIGSYS")
			return append(done, a), h.Protections, ctx.Err()
		}
		if f.kind != kindResult || json.Unmarshal(f.payload, &a) != nil || a.Name != list[n].name {
			p.kill()
			_ = p.wait()
			return done, h.Protections, protocolErrorf("an answer to another attempt")
		}
		a.How = cutText(a.How)
		done = append(done, a)
	}
	p.kill()
	_ = p.wait()
	return done, h.Protections, nil
}

// runAttempts makes the attempts in the child, starting with the n-th.
func runAttempts(w *writer, conn io.Reader, n int) error {
	list := attempts()
	for _, a := range list[min(max(n, 0), len(list)):] {
		got, refused := a.try()
		r := Attempt{Name: a.name, Refused: refused != nil, How: got}
		if refused != nil {
			r.How = refused.Error()
		}
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := w.send(kindResult, 0, 0, b, nil); err != nil {
			return err
		}
	}
	_, err := conn.Read(make([]byte, 1)) // wait for the parent to disconnect
	if err == io.EOF {
		err = nil
	}
	return err
}
