package secret_test

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret"
)

func TestRandom(t *testing.T) {
	for _, s := range []string{
		"550e8400-e29b-41d4-a716-446655440000", "sk-proj-9fK2mQ7xL1", "123456789:AAFx81kZpQ0yLmN",
		"ZmFrZS10b2tlbi1hYmNkZWZnaGlqa2xtbm8", "mfrggzdfmztwq2lkmfrggzdfmztwq2lk",
	} {
		if !secret.LooksRandom(s) {
			t.Errorf("%q is shown", s)
		}
	}
	for _, s := range []string{
		"", "mcp", "v1", "api", "model-context-protocol-server", "my-company-connector-2024",
		"streamable-http-2025-06-18", "listAllIssues", "OAuth2", "127.0.0.1", "acme_corp", "modelcontextprotocol",
		"HTTPServer", "@modelcontextprotocol", "my_tool-v2.0.1",
	} {
		if secret.LooksRandom(s) {
			t.Errorf("%q is hidden", s)
		}
	}
	rnd, shown := rand.NewChaCha8([32]byte{}), 0
	for range 10_000 { // 128 bits
		var b [16]byte
		_, _ = rnd.Read(b[:]) // it never fails
		for _, s := range []string{base64.RawURLEncoding.EncodeToString(b[:]), hex.EncodeToString(b[:]),
			base32.StdEncoding.EncodeToString(b[:])} {
			if !secret.LooksRandom(s) {
				shown++
			}
		}
	}
	if shown > 3 {
		t.Errorf("%d of 30,000 are shown", shown)
	}
}
