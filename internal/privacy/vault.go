package privacy

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Token names a value in a vault: [EMAIL_3] is the third address. N is never 0.
type Token struct {
	Kind Kind
	N    int64
}

// An Entry is a value in a vault.
type Entry struct {
	Token
	Value   string // the bytes that were seen first
	Literal bool   // Value is a number or a boolean of JSON, rather than a text
}

// Key is what two spellings of one value have in common.
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
	return k + strings.ToUpper(bare(e.Value))
}

// A Store keeps vaults. Values are sealed in it, and found by digests that tell nothing of them. It is safe for concurrent use. When
// a method returns that adds something, the loss of power loses nothing of it.
type Store interface {
	// Number gives each entry the token of its Key in the vault, adding those that it hasn't, with a number that the owner never had before.
	// N stays 0 where the vault would have more than most values.
	Number(ctx context.Context, of Scope, most int, all []*Entry) error
	// Find gives the entries that tokens of the vault stand for; those that it hasn't are left out.
	Find(ctx context.Context, of Scope, tokens []Token) ([]Entry, error)
	// All gives the entries of a kind, or all where that is empty.
	All(ctx context.Context, of Scope, kind Kind) ([]Entry, error)
	// Put adds entries to a vault, with the tokens that they have. One that the vault has stays as it is.
	Put(ctx context.Context, of Scope, all []Entry) error
	// Copy adds the entries of a vault to another one of the same owner.
	Copy(ctx context.Context, from, to Scope) error
	// Touch notes that a vault is used.
	Touch(ctx context.Context, of Scope, at time.Time) error
	// Expire deletes the vaults that were not used since then, but for those of sessions that there are, and says how many values they had.
	Expire(ctx context.Context, before time.Time) (int, error)
}

// prefixes are what tokens begin with.
var prefixes = func() map[string]Kind {
	out := map[string]Kind{}
	for _, k := range append(Kinds(), Field) {
		out[strings.ToUpper(string(k))] = k
	}
	return out
}()

// String gives the token as it is written; without a number where N is 0.
func (t Token) String() string {
	if t.N == 0 {
		return "[" + strings.ToUpper(string(t.Kind)) + "]"
	}
	return "[" + strings.ToUpper(string(t.Kind)) + "_" + strconv.FormatInt(t.N, 10) + "]"
}

// maxToken is how long a token may be.
const maxToken = 40

// tokenAt gives the token that s begins with, and its length; 0 where there is none.
func tokenAt(s string) (Token, int) {
	end := strings.IndexByte(s[:min(len(s), maxToken)], ']')
	if end < 0 || s[0] != '[' {
		return Token{}, 0
	}
	i := strings.LastIndexByte(s[:end], '_')
	if i < 1 {
		return Token{}, 0
	}
	k, ok := prefixes[s[1:i]]
	n, err := strconv.ParseInt(s[i+1:end], 10, 64)
	if !ok || err != nil || n < 1 || s[i+1] < '1' || s[i+1] > '9' {
		return Token{}, 0
	}
	return Token{k, n}, end + 1
}

// maxExported bounds what is taken in of another place's vault, in entries.
const maxExported = 1_000_000

// Export gives a vault as one text, which holds the values in the clear.
func (g *Guard) Export(ctx context.Context, of Scope) ([]byte, error) {
	if g == nil {
		return nil, nil
	}
	all, err := g.cfg.Store.All(ctx, of, "")
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return json.Marshal(all)
}

// Import adds what Export gave to a vault, with the tokens that it has.
func (g *Guard) Import(ctx context.Context, of Scope, text []byte) error {
	if g == nil || len(text) == 0 {
		return nil
	}
	var all []Entry
	if err := json.Unmarshal(text, &all); err != nil || len(all) > maxExported {
		return tool.Errorf(tool.Invalid, "import: the session's personal data can't be read: %w", errors.Join(err, errTooMany))
	}
	for i := range all {
		if _, known := prefixes[strings.ToUpper(string(all[i].Kind))]; !known || all[i].N < 1 || all[i].N > 1<<53 {
			return tool.Errorf(tool.Invalid, "import: the session's personal data has the token %s, which can't be", all[i].Token)
		}
	}
	defer g.forget(of)
	return g.cfg.Store.Put(ctx, of, all)
}

var errTooMany = errors.New("it is no list of values, or too long")
