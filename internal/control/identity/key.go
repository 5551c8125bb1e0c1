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

// An API key is "bp_<id>_<secret>". The id has 12 characters; it is used for look-ups and may be
// shown. The secret has 43 random characters of [0-9A-Za-z], which hold 256 bits. They are followed
// by 6 characters with a CRC-32 of everything before. The fixed prefix and the checksum let a
// scanner recognize a leaked key offline. A mistyped key is refused without a look-up.
const (
	keyPrefix   = "bp_"
	idChars     = 12
	secretChars = 43
	checkChars  = 6
	keyChars    = len(keyPrefix) + idChars + 1 + secretChars + checkChars

	// KeyPrefix and KeyLength describe the form of API keys, so that they can be found in a text.
	KeyPrefix = keyPrefix
	KeyLength = keyChars

	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// A Key is an API key as it is stored, without its secret. The secret is 256 random bits, so a
// single SHA-256 suffices. It can't be guessed, and a slow hash would slow down every request.
type Key struct {
	// Name is unique for ever. The name of a revoked key can't be reused, since records and
	// sessions refer to it.
	Name    string
	ID      string // part of the key itself
	Hash    []byte // SHA-256 of the key's secret part
	Old     []byte // hash of the secret before the last rotation; nil: none
	OldEnds time.Time
	Person  string   // the user it acts for; empty: none
	Roles   []string // at least one
	Scopes  []string // ScopeMCP, ScopeAPI
	Tools   []string // patterns of paths; nil: all
	Groups  []string // as named by policies and approvers; nil: none
	Created time.Time
	Expires time.Time // zero: never
	Rotated time.Time // zero: never
	Used    time.Time // zero: never; accurate to a minute
	Revoked time.Time // zero: not revoked
	// Changed means that the stored key was modified outside this process. It is not accepted, and
	// can only be revoked. If it was removed, only its name is set.
	Changed bool
}

// Principal returns the principal of requests with k.
func (k *Key) Principal() tool.Principal {
	return tool.Principal{
		ID: keyOwner + k.Name, Name: k.Name, Person: k.Person, Agent: k.Name,
		Roles: slices.Clone(k.Roles), Scopes: slices.Clone(k.Scopes), Tools: slices.Clone(k.Tools),
		Groups: slices.Clone(k.Groups),
		Until:  k.Expires,
	}
}

// keyOwner is the prefix of the ID of a Principal that is a key.
const keyOwner = "key:"

// newSecret returns a new secret part of a key, and its hash.
func newSecret() (secret string, hash []byte) {
	secret = randomText(secretChars)
	return secret, hashOf(secret)
}

func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// fullText returns the full key, which is shown once.
func (k *Key) fullText(secret string) string {
	s := keyPrefix + k.ID + "_" + secret
	return s + crcText(s)
}

// splitKey splits a key into id and secret. ok is false if text is not a valid key, or mistyped.
func splitKey(text string) (id, secret string, ok bool) {
	if len(text) != keyChars || !strings.HasPrefix(text, keyPrefix) {
		return "", "", false
	}
	body, sum := text[:keyChars-checkChars], text[keyChars-checkChars:]
	id, secret, ok = strings.Cut(body[len(keyPrefix):], "_")
	if !ok || len(id) != idChars || crcText(body) != sum {
		return "", "", false
	}
	return id, secret, true
}

// acceptsSecret reports whether secret is currently valid for k.
func (k *Key) acceptsSecret(secret string, now time.Time) bool {
	h := hashOf(secret)
	current := subtle.ConstantTimeCompare(h, k.Hash) == 1
	old := subtle.ConstantTimeCompare(h, k.Old) == 1 && now.Before(k.OldEnds)
	return current || old
}

// crcText returns a CRC-32 (IEEE) as six characters.
func crcText(s string) string {
	n := crc32.ChecksumIEEE([]byte(s))
	var b [checkChars]byte
	for i := range b {
		b[checkChars-1-i] = alphabet[n%uint32(len(alphabet))]
		n /= uint32(len(alphabet))
	}
	return string(b[:])
}

// randomText returns n random characters of the alphabet, uniformly distributed.
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
