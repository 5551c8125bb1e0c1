package guest

import (
	"bytes"
	"context"
	_ "embed" // the programs that collect and set variables
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

var (
	//go:embed move.py
	movePython string
	//go:embed move.js
	moveScript string
)

const (
	maxMoved = 16 << 20 // bytes of the variables that are moved
	moveTime = 30 * time.Second
)

// A Moved lists what became of the variables of a guest that moved to another kind of sandbox.
type Moved struct {
	Kept []string
	Left map[string]string // why a variable is gone, by name
}

// DescribeMove describes m in one line.
func (m Moved) DescribeMove() string {
	parts := []string{"its files"}
	if len(m.Kept) > 0 {
		parts = append(parts, "the variables "+listShort(m.Kept))
	}
	out := strings.Join(parts, " and ") + " moved"
	if len(m.Left) == 0 {
		return out
	}
	var left []string
	for _, name := range slices.Sorted(maps.Keys(m.Left)) {
		left = append(left, name+" ("+text.Cut(m.Left[name], 80)+")")
	}
	return out + "; gone are " + listShort(left)
}

const (
	maxListed = 20  // names in a list
	maxName   = 160 // bytes of one, with the reason
)

func listShort(names []string) string {
	var short []string
	for _, name := range names[:min(len(names), maxListed)] {
		short = append(short, text.Cut(name, maxName))
	}
	out := strings.Join(short, ", ")
	if n := len(names) - maxListed; n > 0 {
		out += " and " + strconv.Itoa(n) + " more"
	}
	return out
}

// A variable is the value of a variable as text, in a form that the programs in this folder know.
type variable struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// A collection is the arguments of collect, and a restoration those of restore.
type (
	collection struct {
		Names []string `json:"names"`
		Most  int      `json:"most"` // bytes
	}
	restoration struct {
		Moved map[string]variable `json:"moved"`
	}
)

// MoveVariables sets the variables of from, a guest of another kind, in to, a fresh one. names are
// the names that programs in TypeScript declared. Both guests run code of the session, and are
// trusted no more than its programs. It fails if to can't be used any more.
func MoveVariables(ctx context.Context, language string, from, to sandbox.Sandbox, names []string) (Moved, error) {
	m := Moved{Left: map[string]string{}}
	if runtimes[language] != "python" && (runtimes[language] != "js" || len(names) == 0) {
		return m, nil
	}
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	var collected struct {
		Moved map[string]variable `json:"moved"`
		Left  map[string]string   `json:"left"`
	}
	err := evaluateFunction(ctx, language, from, "collect", collection{names, maxMoved}, &collected)
	if err != nil {
		for _, name := range names {
			m.Left[name] = "its value can't be read"
		}
		return m, ctx.Err()
	}
	maps.Copy(m.Left, collected.Left)
	var set struct {
		Left map[string]string `json:"left"`
	}
	err = evaluateFunction(ctx, language, to, "restore", restoration{collected.Moved}, &set)
	if err != nil {
		return m, tool.Errorf(tool.Unavailable, "move the variables of a session: %w", err)
	}
	maps.Copy(m.Left, set.Left)
	for _, name := range slices.Sorted(maps.Keys(collected.Moved)) {
		v := collected.Moved[name]
		if m.Left[name] == "" && v.Kind == "program" { // a function, which the guest prepares like a program's
			err = evaluateProgram(ctx, to, v.Text, nil)
			if ctx.Err() != nil {
				return m, context.Cause(ctx)
			}
			if err != nil {
				m.Left[name] = "its text doesn't run alone"
			}
		}
		if m.Left[name] == "" {
			m.Kept = append(m.Kept, name)
		}
	}
	return m, nil
}

// evaluateFunction runs one of the functions of move.py or move.js in a guest.
func evaluateFunction(ctx context.Context, language string, box sandbox.Sandbox, function string, args,
	result any) error {
	line, err := tool.Marshal(args)
	if err != nil {
		return err
	}
	code := movePython
	if runtimes[language] == "js" {
		code = moveScript
	}
	argument := strconv.Quote(base64.StdEncoding.EncodeToString(line))
	code = strings.NewReplacer("FUNCTION", function, "ARGUMENT", argument).Replace(code)
	var value string
	if err := evaluateProgram(ctx, box, code, &value); err != nil {
		return err
	}
	return json.Unmarshal([]byte(value), result)
}

// evaluateProgram runs a program in a guest, and decodes its value. It may make no calls.
func evaluateProgram(ctx context.Context, box sandbox.Sandbox, code string, value any) error {
	line, err := tool.Marshal(sandbox.HostMessage{At: time.Now().UnixMilli(),
		Run: &sandbox.Run{Code: code, Name: "move", Session: true, Seed: strings.Repeat("0", 64)}})
	if err != nil {
		return err
	}
	d := &dialog{Reader: bytes.NewReader(append(line, '\n'))}
	if _, err := box.Run(ctx, &sandbox.Cmd{Guest: d, Keep: true, Ask: listNothing}); err != nil {
		return err
	}
	switch {
	case d.end == nil:
		return errors.New("the program didn't end")
	case d.end.Fail != nil:
		return errors.New(d.end.Fail.Error.Message)
	case value == nil:
		return nil
	}
	return json.Unmarshal(d.end.Done.Value, value)
}

// listNothing answers as a host without files.
func listNothing(_ context.Context, question []byte) []byte {
	var m sandbox.GuestMessage
	if json.Unmarshal(question, &m) != nil || m.File == nil || m.File.Op != "list" {
		return nil
	}
	answer, err := tool.Marshal(sandbox.HostMessage{Answer: &sandbox.Answer{ID: m.File.ID, Value: []byte("[]")}})
	if err != nil {
		return nil
	}
	return answer
}

// A dialog is the stream of a program that makes no calls.
type dialog struct {
	io.Reader
	part []byte
	end  *sandbox.GuestMessage
}

// Write receives output of the guest.
func (d *dialog) Write(b []byte) (int, error) {
	d.part = append(d.part, b...)
	for {
		line, rest, found := bytes.Cut(d.part, []byte("\n"))
		if !found {
			return len(b), nil
		}
		var m sandbox.GuestMessage
		if err := json.Unmarshal(line, &m); err == nil && (m.Done != nil || m.Fail != nil) {
			d.end = &m
		}
		d.part = rest
	}
}
