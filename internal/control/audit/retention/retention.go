// Package retention selects the data that is kept beside the audit log, and computes the digests
// that the log has of all data. Values of secret fields and texts that look like secrets are
// redacted before data is kept.
package retention

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
)

// A Keep selects what is kept of arguments or results. Their keyed digest and size are always in
// the record.
type Keep string

// The values of Keep.
const (
	KeepFull Keep = "full" // the first keptBytes bytes
	// JSON with the values of secret-looking fields replaced; nothing of other data
	KeepRedacted Keep = "redacted"
	KeepDigest   Keep = "digest" // only digest and size; error texts are kept
	KeepNone     Keep = "none"   // only digest and size, and no error texts, because they may quote what was sent
)

// keptBytes is the maximum number of bytes kept of a call's arguments, and of its result. The
// digest covers all of them.
const keptBytes = 1 << 20

// DefaultSpan is the default of Policy.For.
const DefaultSpan = 90 * 24 * time.Hour

// A Policy selects what is kept, and for how long. The zero Policy keeps redacted arguments, and
// digests of results, for DefaultSpan.
type Policy struct {
	Arguments Keep          // KeepRedacted if empty
	Results   Keep          // KeepDigest if empty
	For       time.Duration // DefaultSpan if 0
	Secrets   []string      // names of additional secret fields
	Mask      Masker        // its values are never kept; nil: none
}

// A Masker replaces secret values in data, which may be JSON.
type Masker interface {
	MaskJSON(data []byte) []byte
	Longest() int // length of the longest value; it may grow
}

// A Payload describes data in the record: its keyed digest, its size, and the digest under which
// its kept part is stored.
type Payload struct {
	Digest string // "hmac-sha256:" and hexadecimal; "sha256:" in records of older versions; empty: no data
	Size   int64  // total size in bytes
	Kept   string // digest of the kept bytes: equal to Digest if all are kept; empty: none are
}

// Kept is data kept under its digest, until retention deletes it.
type Kept struct {
	Digest string
	Data   []byte
}

// A Key identifies kept data by the index of its leaf and its digest.
type Key struct {
	Seq    int64
	Digest string
}

// digestPurpose is the purpose of the digests' key.
const digestPurpose = "audit-digest"

// A Keeper computes digests, and selects the data to keep. It is safe for concurrent use.
type Keeper struct {
	key     *secret.Key
	args    Keep
	results Keep
	span    time.Duration
	secrets []string // names, squeezed
	looks   []string
	hidden  Masker
}

// NewKeeper returns a Keeper. The key is for the digests; nil: a random key for this Keeper only.
func NewKeeper(key *secret.Key, p Policy) *Keeper {
	if key == nil {
		var b [secret.KeySize]byte
		_, _ = rand.Read(b[:]) // it never fails: it crashes the process instead
		key, _ = secret.NewKey(b[:])
	}
	k := &Keeper{key: key, args: p.Arguments, results: p.Results, span: p.For, looks: secretNames(),
		hidden: p.Mask}
	if k.args == "" {
		k.args = KeepRedacted
	}
	if k.results == "" {
		k.results = KeepDigest
	}
	if k.span <= 0 {
		k.span = DefaultSpan
	}
	for _, name := range p.Secrets {
		k.secrets = append(k.secrets, normalizeName(name))
	}
	return k
}

// Digest returns the keyed digest of data as it is in the record of a store with this key. With the
// data and the key, one can find it there.
func Digest(key *secret.Key, data []byte) string {
	const name = "hmac-sha256:"
	mac := key.MAC(digestPurpose, data)
	var out [len(name) + 2*len(mac)]byte
	hex.Encode(out[copy(out[:], name):], mac[:])
	return string(out[:])
}

// OutdatedBefore returns the time before which data must have been recorded to be deleted now.
func (k *Keeper) OutdatedBefore(now time.Time) time.Time { return now.Add(-k.span) }

// DigestOf returns the digest of data.
func (k *Keeper) DigestOf(data []byte) string { return Digest(k.key, data) }

// KeepArguments describes the arguments of a call, and appends what must be stored of them to kept.
func (k *Keeper) KeepArguments(kept *[]Kept, data []byte) Payload {
	return k.makePayload(kept, data, k.args)
}

// KeepResult is like KeepArguments, for a result.
func (k *Keeper) KeepResult(kept *[]Kept, data []byte) Payload {
	return k.makePayload(kept, data, k.results)
}

// KeepMessage is like KeepArguments, for an error text. The text is kept unless arguments or
// results are KeepNone: it may quote what was sent to an upstream.
func (k *Keeper) KeepMessage(kept *[]Kept, text string) Payload {
	keep := KeepFull
	if k.args == KeepNone || k.results == KeepNone {
		keep = KeepNone
	}
	return k.makePayload(kept, []byte(text), keep)
}

func (k *Keeper) makePayload(to *[]Kept, data []byte, keep Keep) Payload {
	p := Payload{Digest: Digest(k.key, data), Size: int64(len(data))}
	var kept []byte
	switch keep {
	case KeepFull:
		kept = k.maskedPrefix(data)
	case KeepRedacted:
		if len(data) <= keptBytes {
			kept = k.redactJSON(k.maskJSON(data))
		}
	}
	if len(kept) == 0 {
		return p
	}
	p.Kept = p.Digest
	if !bytes.Equal(kept, data) {
		p.Kept = Digest(k.key, kept)
	}
	*to = append(*to, Kept{p.Kept, kept})
	return p
}

func (k *Keeper) maskJSON(data []byte) []byte {
	if k.hidden == nil {
		return data
	}
	return k.hidden.MaskJSON(data)
}

// maskedPrefix returns the beginning of data without masked values. It cuts the data so that not
// even a part of a masked value remains.
func (k *Keeper) maskedPrefix(data []byte) []byte {
	part := data[:min(len(data), keptBytes+k.longestSecret())]
	clean := k.maskJSON(part)
	if len(part) < len(data) {
		clean = clean[:max(0, len(clean)-k.longestSecret())]
	}
	return clean[:min(len(clean), keptBytes)]
}

func (k *Keeper) longestSecret() int {
	if k.hidden == nil {
		return 0
	}
	return k.hidden.Longest()
}
