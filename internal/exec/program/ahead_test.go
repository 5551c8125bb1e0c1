package program_test

import (
	"reflect"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

// Reading ahead must not change the program: neither the first time nor later, nor while the text
// is still being read. It must not affect other texts.
func TestAhead(t *testing.T) {
	for _, q := range []program.Request{
		{Source: "const n: number = 1; n + 1"}, {Source: "let a = 1", Session: true}, {Source: "1 +"}, {Source: ""},
		{Source: "1 as any", Language: "javascript"}, {Source: "1 + 1", Language: "python"},
		{Source: "1", Language: "cobol"},
	} {
		alone := program.New(program.Config{})
		ahead := program.NewAhead(q)
		p := program.New(program.Config{Ahead: ahead})
		var wg sync.WaitGroup
		wg.Go(ahead.Read)
		for range 3 {
			other := q
			other.Source += " "
			for _, q := range []program.Request{q, other, {Source: q.Source, Session: !q.Session}} {
				got, err := p.Prepare(q)
				should, shouldErr := alone.Prepare(q)
				if (got == nil) != (should == nil) ||
					got != nil && (got.Code != should.Code || !reflect.DeepEqual(got.Declared, should.Declared)) ||
					!reflect.DeepEqual(err, shouldErr) {
					t.Errorf("%+v: %+v, %v, not %+v, %v", q, got, err, should, shouldErr)
				}
			}
		}
		wg.Wait()
	}
}
