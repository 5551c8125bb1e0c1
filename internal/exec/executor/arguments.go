package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// parseArguments parses the arguments of execute, strictly.
func (x *Executor) parseArguments(raw json.RawMessage) (arguments, error) {
	var a arguments
	fields, err := parseFields(raw, "execute", "code", "language", "session", "after", "mode", "timeout_seconds",
		"files", "tier", "image")
	if err != nil {
		return a, err
	}
	lim := x.cfg.Limits
	seconds := lim.Timeout.Seconds()
	var mode, tier string
	if err := errors.Join(
		decodeField(fields, "code", &a.Code, "a string: the text of the program"),
		decodeField(fields, "language", &a.Language, "a string: \"typescript\", \"python\", \"bash\" or \"go\""),
		decodeField(fields, "session", &a.session, "a string: the name of the session"),
		decodeField(fields, "after", &a.after, "a string: the id of an execution"),
		decodeField(fields, "mode", &mode, "a string: \"run\" or \"plan\""),
		decodeField(fields, "timeout_seconds", &seconds, "a number of seconds"),
		decodeField(fields, "tier", &tier, "a string: \"wasm\" or \"process\""),
		decodeField(fields, "image", &a.image, "a string: the name of an image"),
	); err != nil {
		return a, tool.AsError(err)
	}
	language, ok := languages.Get()[strings.ToLower(strings.TrimSpace(a.Language))]
	switch {
	case strings.TrimSpace(a.Code) == "":
		return a, tool.Errorf(tool.Invalid,
			"execute: code is missing: give the text of a program, for example {\"code\": \"return 1 + 1\"}")
	case len(a.Code) > lim.Code:
		return a, tool.Errorf(tool.Limit,
			"execute: code has %s, the most is %s: let the program make or read its data instead of holding it",
			text.Size(len(a.Code)), text.Size(lim.Code))
	case !ok:
		return a, tool.Errorf(tool.Invalid, "execute: language %q can't run here: write the program in "+
			"\"typescript\" (the default), \"javascript\", \"python\", \"bash\", \"go\", \"rust\" or \"java\"",
			text.Cut(a.Language, 40))
	case !(seconds > 0) || seconds > lim.MaxTimeout.Seconds():
		return a, tool.Errorf(tool.Invalid, "execute: the timeout (timeout_seconds, on the command line --timeout) "+
			"must be more than 0 and at most %g seconds", lim.MaxTimeout.Seconds())
	}
	if err := x.sessionArguments(fields, a.session, language); err != nil {
		return a, err
	}
	if a.plan, err = x.parseMode(mode); err != nil {
		return a, err
	}
	if tier != "" {
		if a.tier, err = tool.ParseTier(tier); err != nil {
			return a, tool.Errorf(tool.Invalid, "execute: %w", err)
		}
	}
	if a.files, err = attachments(fields["files"]); err != nil {
		return a, err
	}
	a.language = "typescript"
	if language != "javascript" { // the same engine
		a.language = language
	}
	a.timeout = time.Duration(seconds * float64(time.Second))
	return a, nil
}

// parseMode parses the mode argument, and reports whether the program should be planned.
func (x *Executor) parseMode(mode string) (plan bool, _ error) {
	switch {
	case mode == "" || mode == "run":
		return false, nil
	case mode != "plan":
		return false, tool.Errorf(tool.Invalid, "execute: mode %q is not known: \"plan\" asks a person for all "+
			"writes at once before any is made; leave it out otherwise", text.Cut(mode, 40))
	case x.cfg.Journal == nil:
		return false, tool.Errorf(tool.Unavailable,
			"execute: nothing can be planned here, since nothing is stored: leave mode out")
	}
	return true, nil
}

// sessionArguments checks that the session and the language are available here.
func (x *Executor) sessionArguments(fields map[string]json.RawMessage, name, language string) error {
	if raw := fields["session"]; len(raw) > 0 && string(raw) != "null" {
		if err := session.CheckName(name); err != nil {
			return tool.Errorf(tool.Invalid, "execute: %w", err)
		}
		if x.cfg.Store == nil {
			return tool.Errorf(tool.Unavailable, "execute: session %q: there are no sessions here, since nothing is "+
				"stored: leave session out and do all of the job in one program", name)
		}
	}
	if language != "typescript" && language != "javascript" { // the TypeScript engine is resolved when a program runs
		var image string
		_ = json.Unmarshal(fields["image"], &image) // its type was checked
		n := guest.Need{Language: language, Image: image}
		if _, _, err := x.guests.ChooseSource(x.ctx, n); err != nil {
			return tool.Errorf(tool.AsError(err).Kind, "execute: %w", err)
		}
	}
	return nil
}

// languages maps the names that agents use to the languages that the engine runs.
var languages = lazily.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"": "typescript", "typescript": "typescript", "ts": "typescript", "tsx": "typescript",
		"python": "python", "py": "python", "python3": "python", "bash": "bash", "sh": "bash", "shell": "bash",
		"javascript": "javascript", "js": "javascript", "jsx": "javascript", "mjs": "javascript", "node": "javascript",
		"ecmascript": "javascript",
		"go":         "go", "golang": "go", "rust": "rust", "rs": "rust", "java": "java",
	}
}}

// parseFields parses the arguments of one of Biplane's own tools. Unknown keys are errors.
func parseFields(raw json.RawMessage, name string, known ...string) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) == 0 {
		return fields, nil
	}
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, tool.Errorf(tool.Invalid, "%s takes an object with %s", name, strings.Join(known, ", "))
	}
	var unknown []string
	for k := range fields {
		if !slices.Contains(known, k) {
			unknown = append(unknown, fmt.Sprintf("%q", text.Cut(k, 40)))
		}
	}
	if len(unknown) > 0 {
		sort.Strings(unknown)
		return nil, tool.Errorf(tool.Invalid, "%s: unknown argument %s: it takes %s", name,
			strings.Join(unknown[:min(len(unknown), 5)], ", "), strings.Join(known, ", "))
	}
	return fields, nil
}

// decodeField decodes one argument into v. If it is missing or null, v is unchanged.
func decodeField[T any](fields map[string]json.RawMessage, name string, v *T, want string) error {
	raw, ok := fields[name]
	if !ok || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return tool.Errorf(tool.Invalid, "%s must be %s, got %s", name, want, text.Cut(string(raw), 60))
	}
	return nil
}
