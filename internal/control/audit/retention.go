package audit

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
)

// A Keep says what is kept of arguments or results. Their keyed digest and size are always in the
// record.
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

// KeepFor is the default retention time.
const KeepFor = 90 * 24 * time.Hour

// A Retention says what is kept beside the record, and for how long. The zero value keeps redacted
// arguments, and digests of results, for KeepFor.
type Retention struct {
	Arguments Keep          // KeepRedacted if empty
	Results   Keep          // KeepDigest if empty
	For       time.Duration // KeepFor if 0
	Secrets   []string      // names of additional secret fields
	Mask      *mask.Masker  // its values are never kept; nil: none
}

// digestPurpose is the purpose of the digests' key.
const digestPurpose = "audit-digest"

// A keeper computes digests, and selects the data to keep.
type keeper struct {
	key     *secret.Key
	args    Keep
	results Keep
	long    time.Duration
	secrets []string // names, squeezed
	looks   []string
	hidden  *mask.Masker
}

func newKeeper(key *secret.Key, r Retention) *keeper {
	if key == nil {
		var b [secret.KeySize]byte
		_, _ = rand.Read(b[:]) // it never fails: it crashes the process instead
		key, _ = secret.NewKey(b[:])
	}
	k := &keeper{key: key, args: r.Arguments, results: r.Results, long: r.For, looks: secretNames(),
		hidden: r.Mask}
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

func (k *keeper) argumentsPayload(a *Addition, data []byte) Payload {
	return k.makePayload(a, data, k.args)
}

func (k *keeper) resultPayload(a *Addition, data []byte) Payload {
	return k.makePayload(a, data, k.results)
}

// messagePayload returns the payload of an error text. The text is kept unless arguments or results
// are KeepNone: it may quote what was sent to an upstream.
func (k *keeper) messagePayload(a *Addition, text string) Payload {
	keep := KeepFull
	if k.args == KeepNone || k.results == KeepNone {
		keep = KeepNone
	}
	return k.makePayload(a, []byte(text), keep)
}

func (k *keeper) makePayload(a *Addition, data []byte, keep Keep) Payload {
	p := Payload{Digest: Digest(k.key, data), Size: int64(len(data))}
	var kept []byte
	switch keep {
	case KeepFull:
		kept = k.maskedPrefix(data)
	case KeepRedacted:
		if len(data) <= keptBytes {
			kept = k.redactJSON(k.hidden.HideJSON(data))
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

// maskedPrefix returns the beginning of data without masked values. It cuts the data so that not
// even a part of a masked value remains.
func (k *keeper) maskedPrefix(data []byte) []byte {
	part := data[:min(len(data), keptBytes+k.hidden.Longest())]
	clean := k.hidden.HideJSON(part)
	if len(part) < len(data) {
		clean = clean[:max(0, len(clean)-k.hidden.Longest())]
	}
	return clean[:min(len(clean), keptBytes)]
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
