package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"runtime/debug"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/tool"
)

// compileProgram compiles the program.
func (r *run) compileProgram(a arguments) (*program.Program, error) {
	q := program.Request{Source: a.Code, Principal: r.principal, Language: a.Language, Session: r.machine.hold != nil}
	if r.machine.hold != nil {
		q.Declared = declaredNames(r.machine.hold, a.language)
	}
	return r.files.compileText(q)
}

// declaredNames returns the names that earlier programs of a session declared.
func declaredNames(hold *live.Hold, language string) []string {
	if g := hold.State().Guest(language); g != nil {
		return g.Declared
	}
	return nil
}

// compileText compiles a program, which can import modules among the files. A panic on unusual
// input must not affect other programs.
func (f *files) compileText(q program.Request) (p *program.Program, err error) {
	defer func() {
		if v := recover(); v != nil {
			f.x.cfg.Log.Error("preparing a program panicked", "execution", f.id, "panic", v, "stack",
				string(debug.Stack()))
			err = tool.Errorf(tool.Internal, "this program can't be read: write it more simply")
		}
	}()
	q.Files = f
	if strings.Contains(q.Source, "skills") { // a program that imports a skill contains this word
		if q.Skills, err = skill.Modules(f.fs); err == nil {
			err = f.removeUnreadable(q.Skills, q.Source)
		}
		if err != nil {
			return nil, err
		}
	}
	p, err = f.x.cfg.Programs.Prepare(q)
	if err != nil && f.barred != nil {
		return nil, f.barred // more specific than an error about a missing module
	}
	return p, err
}

// recordAttempts records the calls in the program's text of tools that the principal may not see.
// The program won't make them: err rejects it because of one of them, or it fails before the call.
// An execution that is recovered has its attempts on record already.
func (r *run) recordAttempts(err error) error {
	var paths []string
	var refused *program.Error
	switch {
	case r.history.isReplayed():
	case errors.As(err, &refused):
		paths = refused.Attempts
	case r.program != nil:
		paths = r.program.Attempts
	}
	for _, path := range paths {
		by := r.calls.describeProgram()
		by.Attempt = true
		c := &tool.Call{Path: path, Principal: r.principal, Labels: r.taint.labels.All(), By: by}
		if _, err := r.x.cfg.Door.Call(r.ctx, c); tool.AsError(err) != nil &&
			tool.AsError(err).Kind == tool.Internal {
			return err // the attempt can't be recorded
		}
	}
	return nil
}

// programDigest returns the SHA-256 of a program's text, in hexadecimal.
func programDigest(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])
}
