package registry

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

const (
	keyPrefix = "ed25519:"
	pemType   = "PRIVATE KEY"
)

// FormatKey returns the text of a public key.
func FormatKey(k ed25519.PublicKey) string { return keyPrefix + base64.StdEncoding.EncodeToString(k) }

// ParseKey parses the text of a public key.
func ParseKey(text string) (ed25519.PublicKey, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(text), keyPrefix)
	raw, err := base64.StdEncoding.Strict().DecodeString(body)
	if !ok || err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("a public key is ed25519: and 44 characters, as `biplane registry keygen` prints it")
	}
	return raw, nil
}

// GenerateKey returns a new private key as PEM (PKCS #8), and its public key.
func GenerateKey() ([]byte, ed25519.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), public, nil
}

// LoadKey reads a private key from a file.
func LoadKey(path string) (ed25519.PrivateKey, error) {
	raw, err := readFile(path, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("the key: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != pemType {
		return nil, fmt.Errorf("%s is no private key: `biplane registry keygen` makes one", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is no Ed25519 key: `biplane registry keygen` makes one", path)
	}
	return private, nil
}
