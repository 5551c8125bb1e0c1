package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An API key is "bp_<id>_<secret>": an id of 12 characters, by which it is found and which may be shown, and 43 random
// characters of [0-9A-Za-z], which hold 256 bits, followed by 6 that are a CRC-32 of all before them. By the fixed prefix
// and the checksum a scanner knows a key that was left in a file, without asking anybody; a mistyped key is refused before
// the store is looked at.
const (
	keyPrefix   = "bp_"
	idChars     = 12
	secretChars = 43
	checkChars  = 6
	keyChars    = len(keyPrefix) + idChars + 1 + secretChars + checkChars

	// KeyPrefix and KeyLength are the form of API keys, by which one is found in a text.
	KeyPrefix = keyPrefix
	KeyLength = keyChars

	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// A Key is an API key as it is kept: without its secret. The secret is 256 random bits, so one SHA-256 of it is enough to
// keep: there is no guessing it that a slow hash would slow down, and a slow hash would be paid for by every request.
type Key struct {
	Name    string // unique for ever: a revoked key's name stays taken, since records and sessions name it
	ID      string // stands in the key itself
	Hash    []byte // SHA-256 of the key's secret part
	Old     []byte // that of the secret before the last rotation; nil: none
	OldEnds time.Time
	Person  string   // on whose behalf it is used; empty: nobody's
	Roles   []string // at least one
	Scopes  []string // ScopeMCP, ScopeAPI
	Tools   []string // patterns of paths; nil: all
	Groups  []string // the groups that policies and approvers name; nil: none
	Created time.Time
	Expires time.Time // zero: never
	Rotated time.Time // zero: never
	Used    time.Time // zero: never; exact to a minute
	Revoked time.Time // zero: not
	// Changed: the stored key is not the one that was saved here. It opens nothing, and can only be revoked. One that was
	// removed has nothing but its name.
	Changed bool
}

// Principal gives who a request with k is made by.
func (k *Key) Principal() tool.Principal {
	return tool.Principal{
		ID: keyOwner + k.Name, Name: k.Name, Person: k.Person, Agent: k.Name,
		Roles: slices.Clone(k.Roles), Scopes: slices.Clone(k.Scopes), Tools: slices.Clone(k.Tools), Groups: slices.Clone(k.Groups),
		Until: k.Expires,
	}
}

// keyOwner begins the ID of a Principal that is a key.
const keyOwner = "key:"

// newSecret makes the secret part of a key, and what is kept of it.
func newSecret() (secret string, hash []byte) {
	secret = randomText(secretChars)
	return secret, hashOf(secret)
}

func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// text gives the whole key, which is shown once.
func (k *Key) text(secret string) string {
	s := keyPrefix + k.ID + "_" + secret
	return s + checksum(s)
}

// splitKey takes a key apart. It is false for what is none: a mistyped one, too.
func splitKey(text string) (id, secret string, ok bool) {
	if len(text) != keyChars || !strings.HasPrefix(text, keyPrefix) {
		return "", "", false
	}
	body, sum := text[:keyChars-checkChars], text[keyChars-checkChars:]
	id, secret, ok = strings.Cut(body[len(keyPrefix):], "_")
	if !ok || len(id) != idChars || checksum(body) != sum {
		return "", "", false
	}
	return id, secret, true
}

// opens says whether secret is k's, now.
func (k *Key) opens(secret string, now time.Time) bool {
	h := hashOf(secret)
	current := subtle.ConstantTimeCompare(h, k.Hash) == 1
	old := subtle.ConstantTimeCompare(h, k.Old) == 1 && now.Before(k.OldEnds)
	return current || old
}

// checksum is a CRC-32 (IEEE) in six characters.
func checksum(s string) string {
	n := crc32.ChecksumIEEE([]byte(s))
	var b [checkChars]byte
	for i := range b {
		b[checkChars-1-i] = alphabet[n%uint32(len(alphabet))]
		n /= uint32(len(alphabet))
	}
	return string(b[:])
}

// randomText gives n characters of the alphabet, each as likely as any other.
func randomText(n int) string {
	out := make([]byte, 0, n)
	var b [64]byte
	for len(out) < n {
		rand.Read(b[:]) //nolint:errcheck // it never fails: the process ends before
		for _, c := range b {
			if i := int(c & 63); i < len(alphabet) && len(out) < n {
				out = append(out, alphabet[i])
			}
		}
	}
	return string(out)
}
