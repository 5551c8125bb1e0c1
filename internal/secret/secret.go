// Package secret seals what the store must not keep in the clear: tokens of upstreams, memory of
// suspended sessions.
//
// A sealed text is one version byte, a random nonce of 12 bytes, and AES-256-GCM's output (the text
// and a tag of 16 bytes), under a key of its own for each purpose: HKDF-SHA256 (RFC 5869) of the
// store's key. What it belongs to (the name of an upstream, the number of a session) is
// authenticated with it, so that it opens in its own place only. GCM's bound for random nonces, 2³²
// texts under one key, is far from what one store seals.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sync"
)

const (
	// KeySize is the size of a key in bytes.
	KeySize = 32
	// Overhead is how many bytes longer a sealed text is than the plain one.
	Overhead = 1 + nonceSize + tagSize

	version   = 1
	nonceSize = 12
	tagSize   = 16
)

// ErrUnseal says that a sealed text doesn't open: it was changed or cut, was sealed with another
// key, for another purpose or another place, or is none at all. Which of these can't be told.
var ErrUnseal = errors.New("sealed text does not open: it was changed, or sealed with another key")

// A Key seals and opens. It is safe for concurrent use, and never prints itself.
type Key struct {
	secret [KeySize]byte
	made   sync.Map // by purpose: a *purposed, so that its keys are derived once
}

// purposed is what there is for a purpose.
type purposed struct {
	aead cipher.AEAD
	macs sync.Pool // of hash.Hash: HMAC-SHA256
}

// NewKey makes a Key of KeySize bytes, which it copies.
func NewKey(b []byte) (*Key, error) {
	if len(b) != KeySize {
		return nil, fmt.Errorf("a key has %d bytes, not %d", KeySize, len(b))
	}
	k := &Key{}
	copy(k.secret[:], b)
	return k, nil
}

// Format keeps the key out of logs, whatever the verb.
func (*Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "secret.Key") }

// Seal seals plain for a purpose, so that it opens with the same purpose and bind only.
func (k *Key) Seal(purpose string, plain []byte, bind ...[]byte) []byte {
	return k.AppendSeal(nil, purpose, plain, bind...)
}

// AppendSeal appends the sealed text to dst, which may not overlap plain. With Overhead+len(plain)
// bytes of room in dst nothing is copied but from plain to dst.
func (k *Key) AppendSeal(dst []byte, purpose string, plain []byte, bind ...[]byte) []byte {
	dst = slices.Grow(dst, Overhead+len(plain))
	at := len(dst) + 1
	dst = append(dst, version)[:at+nonceSize]
	nonce := dst[at:]
	_, _ = rand.Read(nonce) // it never fails: the process ends instead
	return k.of(purpose).aead.Seal(dst, nonce, plain, bound(bind))
}

// Unseal opens what Seal made with the same purpose and bind. The error is ErrUnseal.
func (k *Key) Unseal(purpose string, sealed []byte, bind ...[]byte) ([]byte, error) {
	return k.AppendUnseal(nil, purpose, sealed, bind...)
}

// AppendUnseal appends the plain text to dst, which may not overlap sealed. With an error,
// ErrUnseal, it gives nil, and nothing of the text.
func (k *Key) AppendUnseal(dst []byte, purpose string, sealed []byte, bind ...[]byte) ([]byte, error) {
	if len(sealed) < Overhead || sealed[0] != version {
		return nil, ErrUnseal
	}
	dst = slices.Grow(dst, len(sealed)-Overhead)
	plain, err := k.of(purpose).aead.Open(dst, sealed[1:1+nonceSize], sealed[1+nonceSize:], bound(bind))
	if err != nil {
		return nil, ErrUnseal
	}
	return plain, nil
}

// of gives what there is for a purpose. Purposes are names in the program, and few.
func (k *Key) of(purpose string) *purposed {
	if p, ok := k.made.Load(purpose); ok {
		return p.(*purposed)
	}
	sub, err := hkdf.Key(sha256.New, k.secret[:], nil, "biplane/"+purpose, KeySize)
	if err != nil {
		panic(err) // only for keys longer than SHA-256 can give
	}
	block, err := aes.NewCipher(sub)
	if err != nil {
		panic(err) // only for other sizes of keys
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only for other sizes of blocks
	}
	p, _ := k.made.LoadOrStore(purpose, &purposed{aead: gcm, macs: sync.Pool{New: func() any { return hmac.New(sha256.New, sub) }}})
	return p.(*purposed)
}

// bound is the data that is authenticated with the text: the version, and each part after its
// length, so that no two lists of parts are the same bytes.
func bound(parts [][]byte) []byte {
	n := 1
	for _, p := range parts {
		n += 8 + len(p)
	}
	b := append(make([]byte, 0, n), version)
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(p))), p...)
	}
	return b
}

// MAC gives HMAC-SHA256 of data under the key of a purpose: a digest that tells nothing of data to
// who hasn't the key, even where data is short enough to be guessed.
func (k *Key) MAC(purpose string, data []byte) [sha256.Size]byte {
	macs := &k.of(purpose).macs
	m := macs.Get().(hash.Hash)
	defer macs.Put(m)
	m.Reset()
	_, _ = m.Write(data) // a hash takes all
	var sum [sha256.Size]byte
	m.Sum(sum[:0])
	return sum
}
