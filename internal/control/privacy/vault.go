package privacy

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Token names a value in a vault: [EMAIL_3] is the third address. N is 0 only in a token that
// can't be reversed.
type Token struct {
	Kind Kind
	N    int64
}

// An Entry is a value in a vault.
type Entry struct {
	Token
	Value   string // the bytes seen first
	Literal bool   // Value is a JSON number or boolean, not a string
}

// Key returns a key that is the same for all spellings of a value.
func (e *Entry) Key() string {
	k := string(e.Kind) + " "
	if e.Literal {
		k = string(e.Kind) + "#"
	}
	switch e.Kind {
	case Field:
		return k + e.Value
	case Email:
		return k + strings.ToLower(e.Value)
	case Phone:
		if strings.HasPrefix(e.Value, "+") {
			k += "+"
		}
	}
	return k + strings.ToUpper(stripSeparators(e.Value))
}

// A Store stores vaults. Values are encrypted, and looked up by digests that reveal nothing about
// them. It is safe for concurrent use. When a method that adds something returns, the addition
// survives a power failure.
type Store interface {
	// Number sets the token of each entry to the token that the vault has for its Key. Missing
	// entries are added with new numbers, which the owner has never used. N stays 0 for an entry
	// that would exceed the maximum of values, most.
	Number(ctx context.Context, of tool.Scope, most int, all []*Entry) error
	// Find returns the entries of tokens in the vault. It omits unknown tokens.
	Find(ctx context.Context, of tool.Scope, tokens []Token) ([]Entry, error)
	// All returns the entries of a kind, or all entries if kind is empty.
	All(ctx context.Context, of tool.Scope, kind Kind) ([]Entry, error)
	// Put adds entries to a vault, with their tokens. It does not change existing entries.
	Put(ctx context.Context, of tool.Scope, all []Entry) error
	// Copy adds the entries of a vault to another one of the same owner.
	Copy(ctx context.Context, from, to tool.Scope) error
	// Touch records that a vault is in use.
	Touch(ctx context.Context, of tool.Scope, at time.Time) error
	// Expire deletes the vaults that were last used before the given time, except those of existing
	// sessions. It returns the number of deleted values.
	Expire(ctx context.Context, before time.Time) (int, error)
}

// prefixes maps the prefix of a token to its kind.
var prefixes = lazily.Value[map[string]Kind]{Make: func() map[string]Kind {
	out := map[string]Kind{}
	for _, k := range append(Kinds(), Field) {
		out[strings.ToUpper(string(k))] = k
	}
	return out
}}

// String returns the token in its written form, without a number if N is 0.
func (t Token) String() string {
	if t.N == 0 {
		return "[" + strings.ToUpper(string(t.Kind)) + "]"
	}
	return "[" + strings.ToUpper(string(t.Kind)) + "_" + strconv.FormatInt(t.N, 10) + "]"
}

// maxToken is the maximum length of a token.
const maxToken = 40

// tokenAt returns the token at the start of s, and its length. The length is 0 if there is none.
func tokenAt(s string) (Token, int) {
	end := strings.IndexByte(s[:min(len(s), maxToken)], ']')
	if end < 0 || s[0] != '[' {
		return Token{}, 0
	}
	i := strings.LastIndexByte(s[:end], '_')
	if i < 1 {
		return Token{}, 0
	}
	k, ok := prefixes.Get()[s[1:i]]
	n, err := strconv.ParseInt(s[i+1:end], 10, 64)
	if !ok || err != nil || n < 1 || s[i+1] < '1' || s[i+1] > '9' {
		return Token{}, 0
	}
	return Token{k, n}, end + 1
}

// maxExported is the maximum number of entries in an imported vault.
const maxExported = 1_000_000

// Export returns a vault as one text, which contains the values in plain text.
func (g *Guard) Export(ctx context.Context, of tool.Scope) ([]byte, error) {
	if g == nil {
		return nil, nil
	}
	all, err := g.cfg.Store.All(ctx, of, "")
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return json.Marshal(all)
}

// Import adds the output of Export to a vault, with its tokens.
func (g *Guard) Import(ctx context.Context, of tool.Scope, text []byte) error {
	if g == nil || len(text) == 0 {
		return nil
	}
	var all []Entry
	if err := json.Unmarshal(text, &all); err != nil || len(all) > maxExported {
		return tool.Errorf(tool.Invalid, "import: the session's personal data can't be read: %w",
			errors.Join(err, errTooMany))
	}
	for i := range all {
		if _, known := prefixes.Get()[strings.ToUpper(string(all[i].Kind))]; !known ||
			all[i].N < 1 || all[i].N > 1<<53 {
			return tool.Errorf(tool.Invalid, "import: the session's personal data has the token %s, which can't be",
				all[i].Token)
		}
	}
	defer g.forgetVault(of)
	return g.cfg.Store.Put(ctx, of, all)
}

var errTooMany = errors.New("it is not a list of values, or is too long")
