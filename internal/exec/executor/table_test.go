package executor

import (
	"bytes"
	"errors"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestCallTableAnswers(t *testing.T) {
	t.Parallel()
	var a callTable
	large := bytes.Repeat([]byte("1"), maxAnswers)
	if err := a.addAnswer("box.get", large); err != nil {
		t.Errorf("the first answer: %v", err)
	}
	var e *tool.Error
	if err := a.addAnswer("box.get", []byte("1")); !errors.As(err, &e) || e.Limit != execution.FanOutLimit {
		t.Errorf("an answer over %d bytes: %v, want an error of the limit %s", maxAnswers, err, execution.FanOutLimit)
	}
	if err := a.addAnswer("box.put", nil); err != nil {
		t.Errorf("an empty answer: %v", err)
	}
	a.removeAnswer(len(large))
	if err := a.addAnswer("box.get", append(large, '1')); err != nil {
		t.Errorf("an answer after the others were read: %v", err)
	}
}

func TestCallTableOutstanding(t *testing.T) {
	t.Parallel()
	a := callTable{outstanding: 2}
	if a.endCall() || !a.endCall() {
		t.Errorf("%d calls outstanding after the second of two ended", a.outstanding)
	}
}
