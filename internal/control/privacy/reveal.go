package privacy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Revealed reports what happened to the tokens in the arguments of a call.
type Revealed struct {
	Kinds  []string // kinds of the values that replaced tokens, sorted; nil: none
	Kept   []string // tokens that were kept, sorted
	Reason string   // why they were kept
	Alien  []string // tokens that the vault doesn't know, sorted: from another session or principal, or invented
}

// maxRevealed is the maximum size of arguments with all tokens replaced, in bytes.
const maxRevealed = 32 << 20

// Reveal replaces tokens in arguments, a JSON object, by their values. It uses the given vault and
// its owner's vault outside of sessions. If may doesn't allow all their kinds, no token is
// replaced. Unknown tokens are kept, and so is a token with different values in the two vaults. A
// string that consists of a token of a number becomes the number. It returns an error if a vault
// can't be read, or if the arguments would become too large.
func (g *Guard) Reveal(ctx context.Context, of tool.Scope, args json.RawMessage,
	may func(kinds []string) (bool, string)) (json.RawMessage, *Revealed, error) {
	if g == nil {
		return args, nil, nil
	}
	tokens := tokensIn(args)
	if len(tokens) == 0 {
		return args, nil, nil
	}
	g.touchVault(ctx, of)
	known, err := g.loadEntries(ctx, of, tokens)
	if err != nil {
		return nil, nil, &tool.Error{Kind: tool.Internal, Err: err,
			Msg: "the call was not made: its tokens can't be replaced by their values, since the vault of personal " +
				"data can't be read"}
	}
	out := &Revealed{}
	for _, t := range tokens {
		if _, ok := known[t]; !ok {
			out.Alien = append(out.Alien, t.String())
		}
	}
	slices.Sort(out.Alien)
	if len(known) == 0 {
		return args, out, nil
	}
	for t := range known {
		if k := string(t.Kind); !slices.Contains(out.Kinds, k) {
			out.Kinds = append(out.Kinds, k)
		}
		out.Kept = append(out.Kept, t.String())
	}
	slices.Sort(out.Kinds)
	slices.Sort(out.Kept)
	ok, why := may(out.Kinds)
	if !ok {
		out.Kinds, out.Reason = nil, why
		return args, out, nil
	}
	out.Kept = nil
	b := &revealer{known: known}
	full, ok := b.replaceJSON(string(args), 0)
	if !ok || b.size > maxRevealed {
		return nil, nil, tool.Errorf(tool.Limit, "the call was not made: with all tokens replaced by their values, "+
			"its arguments exceed %d bytes or nest too deep: send less at a time", maxRevealed)
	}
	return json.RawMessage(full), out, nil
}

// loadEntries returns the entries of tokens.
func (g *Guard) loadEntries(ctx context.Context, of tool.Scope, tokens []Token) (map[Token]Entry, error) {
	out := map[Token]Entry{}
	scopes := []tool.Scope{of}
	if of.Session != "" {
		scopes = append(scopes, tool.Scope{Owner: of.Owner})
	}
	for _, s := range scopes {
		found, err := g.cfg.Store.Find(ctx, s, tokens)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			// From an imported session: it is ambiguous.
			if have, ok := out[e.Token]; ok && (have.Value != e.Value || have.Literal != e.Literal) {
				delete(out, e.Token)
				continue
			}
			out[e.Token] = e
		}
	}
	return out, nil
}

// maxTokens is the maximum number of tokens that are replaced in one call.
const maxTokens = 100_000

// tokensIn returns the distinct tokens in JSON strings. In JSON a bracket may be escaped: if there
// are escapes, strings are decoded first.
func tokensIn(args json.RawMessage) []Token {
	t := string(args)
	if strings.IndexByte(t, '\\') >= 0 {
		var b strings.Builder
		w := &walk{t: t, by: stringCollector{&b, 0}}
		if !json.Valid(args) || !w.walkValue(place{}) {
			return nil
		}
		t = b.String()
	}
	seen := map[Token]bool{}
	var out []Token
	for i := strings.IndexByte(t, '['); i >= 0 && i < len(t) && len(out) < maxTokens; {
		if k, n := tokenAt(t[i:]); n > 0 && !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
		next := strings.IndexByte(t[i+1:], '[')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return out
}

// decodeNestedStrings decodes a string and, if it contains JSON, the strings in it.
func decodeNestedStrings(raw string, nested int) string {
	t := decodeString(raw)
	head := strings.TrimSpace(t)
	if head == "" || nested >= maxNested || head[0] != '{' && head[0] != '[' || strings.IndexByte(t, '\\') < 0 ||
		!json.Valid([]byte(t)) {
		return t
	}
	var b strings.Builder
	w := &walk{t: t, by: stringCollector{&b, nested + 1}}
	if !w.walkValue(place{}) {
		return t
	}
	return b.String()
}

// A stringCollector writes the decoded strings of a JSON text, each on a separate line.
type stringCollector struct {
	to     *strings.Builder
	nested int
}

func (c stringCollector) replaceValue(raw string, _ place) draft {
	if raw[0] == '"' {
		c.replaceName(decodeNestedStrings(raw, c.nested))
	}
	return nil
}

func (c stringCollector) replaceName(name string) draft {
	c.to.WriteString(name)
	c.to.WriteByte('\n')
	return nil
}

// A revealer replaces tokens by their values.
type revealer struct {
	known map[Token]Entry
	size  int // bytes of the replacements so far
}

// replaceJSON replaces tokens in JSON. ok is false if t is not valid JSON, or nested too deeply.
func (b *revealer) replaceJSON(t string, nested int) (string, bool) {
	if !json.Valid([]byte(t)) {
		return "", false
	}
	w := &walk{t: t, by: nestedRevealer{b, nested}}
	if !w.walkValue(place{}) {
		return "", false
	}
	var out strings.Builder
	for _, p := range append(w.out, part{text: t[w.from:]}) {
		out.WriteString(p.text)
	}
	return out.String(), true
}

// A nestedRevealer reveals the tokens in a JSON text, which may be within a string of another.
type nestedRevealer struct {
	*revealer
	nested int
}

func (r nestedRevealer) replaceValue(raw string, _ place) draft {
	return r.replaceScalar(raw, r.nested)
}

func (r nestedRevealer) replaceName(name string) draft {
	if out := r.replaceText(name); out != name {
		return draft{{text: out}}
	}
	return nil
}

func (b *revealer) replaceScalar(raw string, nested int) draft {
	if raw[0] != '"' || b.size > maxRevealed {
		return nil
	}
	t := decodeString(raw)
	if k, n := tokenAt(t); n > 0 && n == len(t) {
		if e, ok := b.known[k]; ok && e.Literal {
			b.size += len(e.Value)
			return draft{{text: e.Value}}
		}
	}
	out := ""
	if head := strings.TrimSpace(t); head != "" && nested < maxNested && (head[0] == '{' || head[0] == '[') {
		if inner, ok := b.replaceJSON(t, nested+1); ok {
			out = inner
		}
	}
	if out == "" {
		out = b.replaceText(t)
	}
	if out == t {
		return nil
	}
	return quoteDraft(draft{{text: out}})
}

// replaceText replaces tokens in a text.
func (b *revealer) replaceText(t string) string {
	i := strings.IndexByte(t, '[')
	if i < 0 {
		return t
	}
	var out strings.Builder
	from := 0
	for i < len(t) && b.size <= maxRevealed {
		k, n := tokenAt(t[i:])
		e, ok := b.known[k]
		if n == 0 || !ok {
			i++
		} else {
			out.WriteString(t[from:i])
			out.WriteString(e.Value)
			b.size += len(e.Value)
			i += n
			from = i
		}
		next := strings.IndexByte(t[i:], '[')
		if next < 0 {
			break
		}
		i += next
	}
	out.WriteString(t[from:])
	return out.String()
}
