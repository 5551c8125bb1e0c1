package owned

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxOutput = 64 << 20 // bytes that a command may write
	keptEnds  = 32 << 10 // bytes that an answer keeps of the beginning of a stream, and of its end
)

// An output is a command's output, as its answer contains it.
type output struct {
	Out     string        `json:"stdout"`
	Err     string        `json:"stderr"`
	Omitted int64         `json:"omitted,omitempty"` // bytes that are left out
	Exit    *service.Exit `json:"exit"`
}

// A transcript collects the output of a command, and passes it on.
type transcript struct {
	hold *hold
	o    tool.Observer
	out  excerpt
	errs excerpt
	rest [2][]byte // incomplete characters
	sum  int64
}

// AcceptOutput implements service.Output.
func (t *transcript) AcceptOutput(ctx context.Context, errs bool, p []byte) error {
	if t.sum += int64(len(p)); t.sum > maxOutput {
		return tool.Errorf(tool.Limit, "the command wrote more than %s, and was ended: write into a file",
			text.Size(maxOutput))
	}
	to, i := &t.out, 0
	if errs {
		to, i = &t.errs, 1
	}
	to.addBytes(p)
	if t.o.WantsProgress() || t.o.WantsLogs() {
		all := append(t.rest[i], p...)
		n := completeLength(all)
		t.rest[i] = append([]byte(nil), all[n:]...)
		return t.passOn(ctx, errs, all[:n])
	}
	return nil
}

// passOn passes output to the caller while the command runs.
func (t *transcript) passOn(ctx context.Context, errs bool, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if err := t.hold.passLabels(t.o); err != nil {
		return err
	}
	line := strings.ToValidUTF8(string(p), "\uFFFD")
	if t.o.WantsProgress() {
		t.o.OnProgress(ctx, tool.Progress{Done: float64(t.sum), Message: line})
	}
	if !t.o.WantsLogs() {
		return nil
	}
	name := "stdout"
	if errs {
		name = "stderr"
	}
	raw, err := tool.Marshal(struct {
		Level  string `json:"level"`
		Logger string `json:"logger"`
		Data   string `json:"data"`
	}{"info", name, line})
	if err == nil {
		t.o.OnLog(ctx, tool.Log{Level: "info", Raw: raw})
	}
	return err
}

// flushRest passes on what is left of incomplete characters.
func (t *transcript) flushRest(ctx context.Context) error {
	if err := t.passOn(ctx, false, t.rest[0]); err != nil {
		return err
	}
	return t.passOn(ctx, true, t.rest[1])
}

// completeLength returns the length of p without an incomplete character at its end.
func completeLength(p []byte) int {
	for i := 1; i <= utf8.UTFMax && i <= len(p); i++ {
		if c := p[len(p)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return len(p) - i
			}
			break
		}
	}
	return len(p)
}

// An excerpt keeps the beginning and the end of a stream.
type excerpt struct {
	head, tail []byte
	omitted    int64
}

func (e *excerpt) addBytes(p []byte) {
	if room := keptEnds - len(e.head); room > 0 {
		n := min(room, len(p))
		e.head, p = append(e.head, p[:n]...), p[n:]
	}
	e.tail = append(e.tail, p...)
	if over := len(e.tail) - keptEnds; over > 0 {
		e.omitted += int64(over)
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
}

// readText returns the text, with a mark where bytes are left out.
func (e *excerpt) readText() string {
	head, tail := string(e.head), string(e.tail)
	if e.omitted > 0 {
		head += fmt.Sprintf("\n[%d bytes left out]\n", e.omitted)
	}
	return strings.ToValidUTF8(head+tail, "\uFFFD")
}

// runCommand runs a command to completion.
func (h *hold) runCommand(ctx context.Context, q *service.Request, input string, o tool.Observer) (*tool.Result,
	error) {
	t := &transcript{hold: h, o: o}
	var in io.Reader
	if q.Input {
		in = strings.NewReader(input)
	}
	r, err := service.RunCommand(ctx, h.machine, q, in, t)
	if lerr := h.passLabels(o); lerr != nil {
		return nil, lerr
	}
	if err != nil {
		return nil, h.explainFailure(err)
	}
	if r.Exit == nil {
		return nil, tool.Errorf(tool.Internal, "the sandbox did not say how the command ended")
	}
	if err := t.flushRest(ctx); err != nil {
		return nil, err
	}
	v := &output{Out: t.out.readText(), Err: t.errs.readText(), Omitted: t.out.omitted + t.errs.omitted, Exit: r.Exit}
	notes := h.takeNotes()
	raw, err := tool.Marshal(struct {
		*output
		Woken string   `json:"woken,omitempty"`
		Notes []string `json:"notes,omitempty"`
	}{v, h.wokenText(), notes})
	if err != nil {
		return nil, err
	}
	return tool.StructuredResult(raw, v.formatOutput(notes))
}

// formatOutput returns the text that agents read.
func (v *output) formatOutput(notes []string) string {
	var b strings.Builder
	b.WriteString(v.Out)
	if v.Err != "" {
		b.WriteString("\n[standard error]\n" + v.Err)
	}
	switch e := v.Exit; {
	case e.TimedOut:
		b.WriteString("\n[ended by its time limit]")
	case e.Signal != "":
		b.WriteString("\n[ended by " + e.Signal + "]")
	case e.Status != 0:
		fmt.Fprintf(&b, "\n[exit status %d]", e.Status)
	case b.Len() == 0:
		b.WriteString("[no output]")
	}
	for _, line := range notes {
		b.WriteString("\n[" + line + "]")
	}
	return strings.TrimPrefix(b.String(), "\n")
}
