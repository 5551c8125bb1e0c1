package audit

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/lazily"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/secret/mask"
)

// A Keep says what is kept of arguments, or of results. Their keyed digest and their size are in
// the record whatever it says.
type Keep string

// What can be kept.
const (
	KeepFull Keep = "full" // the bytes, the first KeptBytes of them
	// JSON with the values of fields that look like secrets replaced; what is no JSON, not at all
	KeepRedacted Keep = "redacted"
	KeepDigest   Keep = "digest" // nothing but digest and size; texts of errors are kept
	KeepNone     Keep = "none"   // nothing but digest and size, texts of errors neither: they may quote what was sent
)

// KeptBytes is how much is kept of one call's arguments, and of its result, in bytes. The digest
// covers all of them.
const KeptBytes = 1 << 20

// KeepFor is how long is kept what retention says nothing of.
const KeepFor = 90 * 24 * time.Hour

// A Retention says what is kept beside the record, and how long. The zero value keeps redacted
// arguments and digests of results for KeepFor.
type Retention struct {
	Arguments Keep          // KeepRedacted when empty
	Results   Keep          // KeepDigest when empty
	For       time.Duration // KeepFor when 0
	Secrets   []string      // names of fields whose values are secret, besides those that look like it
	Mask      *mask.Masker  // its values are never kept, whatever is; nil: none
}

// digestPurpose is what the digests' key is derived for.
const digestPurpose = "audit-digest"

// A keeper makes digests, and picks what is kept.
type keeper struct {
	key     *secret.Key
	args    Keep
	results Keep
	long    time.Duration
	secrets []string // names, squeezed
	looks   []string
	shapes  func() *regexp.Regexp
	named   func() *regexp.Regexp
	hidden  *mask.Masker
}

func newKeeper(key *secret.Key, r Retention) *keeper {
	if key == nil {
		var b [secret.KeySize]byte
		_, _ = rand.Read(b[:]) // it never fails: the process ends instead
		key, _ = secret.NewKey(b[:])
	}
	k := &keeper{key: key, args: r.Arguments, results: r.Results, long: r.For, looks: looks(), shapes: lazily.Regexp(shapes), named: lazily.Regexp(namedShapes), hidden: r.Mask}
	if k.args == "" {
		k.args = KeepRedacted
	}
	if k.results == "" {
		k.results = KeepDigest
	}
	if k.long <= 0 {
		k.long = KeepFor
	}
	for _, name := range r.Secrets {
		k.secrets = append(k.secrets, squeeze(name))
	}
	return k
}

// Digest gives the keyed digest of bytes as it is in the record of a store with this key, so that
// whoever has the bytes and the key can find them there.
func Digest(key *secret.Key, data []byte) string {
	const name = "hmac-sha256:"
	mac := key.MAC(digestPurpose, data)
	var out [len(name) + 2*len(mac)]byte
	hex.Encode(out[copy(out[:], name):], mac[:])
	return string(out[:])
}

func (k *keeper) arguments(a *Addition, data []byte) Payload { return k.payload(a, data, k.args) }

func (k *keeper) result(a *Addition, data []byte) Payload { return k.payload(a, data, k.results) }

// message is the payload of an error's text, which is kept unless nothing is: an upstream's words
// may quote what it was sent.
func (k *keeper) message(a *Addition, text string) Payload {
	keep := KeepFull
	if k.args == KeepNone || k.results == KeepNone {
		keep = KeepNone
	}
	return k.payload(a, []byte(text), keep)
}

func (k *keeper) payload(a *Addition, data []byte, keep Keep) Payload {
	p := Payload{Digest: Digest(k.key, data), Size: int64(len(data))}
	var kept []byte
	switch keep {
	case KeepFull:
		kept = k.whole(data)
	case KeepRedacted:
		if len(data) <= KeptBytes {
			kept = k.redact(k.hidden.JSON(data))
		}
	}
	if len(kept) == 0 {
		return p
	}
	p.Kept = p.Digest
	if !bytes.Equal(kept, data) {
		p.Kept = Digest(k.key, kept)
	}
	a.Keep = append(a.Keep, Kept{p.Kept, kept})
	return p
}

// whole is the beginning of data without values that are never kept, not even a part of one where
// it is cut.
func (k *keeper) whole(data []byte) []byte {
	part := data[:min(len(data), KeptBytes+k.hidden.Longest())]
	clean := k.hidden.JSON(part)
	if len(part) < len(data) {
		clean = clean[:max(0, len(clean)-k.hidden.Longest())]
	}
	return clean[:min(len(clean), KeptBytes)]
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
