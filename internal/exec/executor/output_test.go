package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

func keepText(s string) string { return s }

func TestOutputConsole(t *testing.T) {
	t.Parallel()
	o := output{limit: 100}
	for i := range 5 {
		if err := o.addLine("log", fmt.Sprintf("line %d %s", i, strings.Repeat("x", 20)), 7,
			strings.ToUpper); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
	}
	if len(o.lines) != 2 || o.lines[1].Text != "LINE 1 "+strings.Repeat("X", 20) {
		t.Errorf("kept %q, want the first two lines, rewritten", o.lines)
	}
	if want := 5 * (27 + 1 + 7); o.logged != want {
		t.Errorf("logged %d characters, want %d", o.logged, want)
	}
	if got := o.droppedNote(); !strings.HasPrefix(got, "3 console lines dropped") {
		t.Errorf("note: %q, want 3 dropped lines", got)
	}
}

func TestOutputOfRunawayProgram(t *testing.T) {
	t.Parallel()
	o := output{limit: 100}
	if o.droppedNote() != "" {
		t.Errorf("an empty console has a note: %q", o.droppedNote())
	}
	lines := 0
	for {
		if err := o.addLine("log", strings.Repeat("x", 84), 0, keepText); err != nil {
			var e *tool.Error
			if !errors.As(err, &e) || e.Limit != execution.OutputLimit {
				t.Errorf("got %v, want an error of the limit %s", err, execution.OutputLimit)
			}
			break
		}
		if lines++; lines > consoleTimes {
			t.Fatalf("%d lines of 100 bytes with a limit of 100, and no error", lines)
		}
	}
	if lines != consoleTimes {
		t.Errorf("the program ended after %d lines, want %d", lines, consoleTimes)
	}
}

func TestOutputBlocks(t *testing.T) {
	t.Parallel()
	var o output
	large := json.RawMessage(strings.Repeat("x", maxEmitted-10))
	if !o.addBlock(large) || o.addBlock(large) || !o.addBlock(large[:10]) || o.addBlock(large[:1]) {
		t.Errorf("%d blocks of %d bytes, want 2 that fill %d", len(o.blocks), o.blockBytes, maxEmitted)
	}
}

func TestOutputDoubts(t *testing.T) {
	t.Parallel()
	var o output
	for i := range 2 * maxDoubts {
		o.addDoubt("a note")
		o.addDoubt(fmt.Sprint("note ", i))
	}
	if len(o.doubts) != maxDoubts || o.doubts[0] != "a note" || o.doubts[1] != "note 0" {
		t.Errorf("notes: %q, want the first %d without repetitions", o.doubts, maxDoubts)
	}
}
