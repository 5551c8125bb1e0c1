// Package secret seals data that must not be stored in plaintext, such as upstream tokens and the
// memory of suspended sessions.
//
// A sealed text is a version byte, a random nonce of 12 bytes, and AES-256-GCM's output (the
// ciphertext and a tag of 16 bytes). Each purpose has its own key, derived from the store's key
// with HKDF-SHA256 (RFC 5869). The context of the text (the name of an upstream, the number of a
// session) is authenticated with it, so it can't be unsealed in another place. A store seals far
// fewer texts than GCM's limit for random nonces, 2³² texts under one key.
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
	// Overhead is the number of bytes that sealing adds to a plaintext.
	Overhead = 1 + nonceSize + tagSize

	version   = 1
	nonceSize = 12
	tagSize   = 16
)

// ErrUnseal means that a sealed text can't be unsealed. It was changed or truncated, was sealed
// with another key, for another purpose or place, or is not a sealed text. These cases can't be
// distinguished.
var ErrUnseal = errors.New("sealed text can't be opened: it was changed, or sealed with another key")

// A Key seals and unseals. It is safe for concurrent use, and never prints itself.
type Key struct {
	secret [KeySize]byte
	made   sync.Map // by purpose: a *purposed, so that its keys are derived once
}

// A purposeKeys holds the derived state for a purpose.
type purposeKeys struct {
	aead cipher.AEAD
	macs sync.Pool // of hash.Hash: HMAC-SHA256
}

// NewKey returns a Key with a copy of b, which must have KeySize bytes.
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

// Seal seals plain for a purpose. It can be unsealed only with the same purpose and bind.
func (k *Key) Seal(purpose string, plain []byte, bind ...[]byte) []byte {
	return k.AppendSeal(nil, purpose, plain, bind...)
}

// AppendSeal appends the sealed text to dst, which must not overlap plain. If dst has capacity for
// Overhead+len(plain) more bytes, it allocates no new buffer.
func (k *Key) AppendSeal(dst []byte, purpose string, plain []byte, bind ...[]byte) []byte {
	dst = slices.Grow(dst, Overhead+len(plain))
	at := len(dst) + 1
	dst = append(dst, version)[:at+nonceSize]
	nonce := dst[at:]
	_, _ = rand.Read(nonce) // it never fails: it crashes the process instead
	return k.derivedFor(purpose).aead.Seal(dst, nonce, plain, encodeBound(bind))
}

// Unseal unseals the output of Seal with the same purpose and bind. The error is ErrUnseal.
func (k *Key) Unseal(purpose string, sealed []byte, bind ...[]byte) ([]byte, error) {
	return k.AppendUnseal(nil, purpose, sealed, bind...)
}

// AppendUnseal appends the plaintext to dst, which must not overlap sealed. On an error, which is
// ErrUnseal, it returns nil.
func (k *Key) AppendUnseal(dst []byte, purpose string, sealed []byte, bind ...[]byte) ([]byte, error) {
	if len(sealed) < Overhead || sealed[0] != version {
		return nil, ErrUnseal
	}
	dst = slices.Grow(dst, len(sealed)-Overhead)
	plain, err := k.derivedFor(purpose).aead.Open(dst, sealed[1:1+nonceSize], sealed[1+nonceSize:], encodeBound(bind))
	if err != nil {
		return nil, ErrUnseal
	}
	return plain, nil
}

// derivedFor returns the derived state for a purpose. Purposes are constants of the program, and
// few.
func (k *Key) derivedFor(purpose string) *purposeKeys {
	if p, ok := k.made.Load(purpose); ok {
		return p.(*purposeKeys)
	}
	sub, err := hkdf.Key(sha256.New, k.secret[:], nil, "biplane/"+purpose, KeySize)
	if err != nil {
		panic(err) // only for keys longer than HKDF can derive
	}
	block, err := aes.NewCipher(sub)
	if err != nil {
		panic(err) // only for other key sizes
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only for other block sizes
	}
	p, _ := k.made.LoadOrStore(purpose, &purposeKeys{aead: gcm, macs: sync.Pool{New: func() any {
		return hmac.New(sha256.New, sub)
	}}})
	return p.(*purposeKeys)
}

// encodeBound returns the data that is authenticated with the text: the version, then each part
// preceded by its length, so that different lists have different encodings.
func encodeBound(parts [][]byte) []byte {
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

// MAC returns the HMAC-SHA256 of data under the key of a purpose. Without the key, the digest
// reveals nothing about data, even if data is short enough to be guessed.
func (k *Key) MAC(purpose string, data []byte) [sha256.Size]byte {
	macs := &k.derivedFor(purpose).macs
	m := macs.Get().(hash.Hash)
	defer macs.Put(m)
	m.Reset()
	_, _ = m.Write(data) // a hash never fails
	var sum [sha256.Size]byte
	m.Sum(sum[:0])
	return sum
}
