package review

import (
	"math"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

const secretBetter = "keep it in the configuration: a tool's credentials, or a secret that the host inserts; " +
	"and replace this one, because the program is on the record"

// secretFormat matches the formats of well-known secrets.
var secretFormat = lazily.Regexp(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[0-9A-Za-z]{36}|` +
	`\bgithub_pat_[0-9A-Za-z_]{40,}|\b[sr]k_(?:live|test)_[0-9A-Za-z]{16,}|\bxox[abprs]-[0-9A-Za-z-]{10,}|` +
	`hooks\.slack\.com/services/T\w+/B\w+/\w{16,}|` +
	`-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}|\bAIza[\w-]{35}|` +
	`\bsk-(?:proj-|ant-)?[0-9A-Za-z_-]{20,}|\bglpat-[\w-]{20}|\bnpm_[0-9A-Za-z]{36}|\bSG\.[\w-]{16,}\.[\w-]{16,}`)

// inURL matches a password in a URL.
var inURL = lazily.Regexp(`\b[a-z][a-z0-9+.-]*://[^\s:/@?#]+:([^\s:/@?#]{4,})@[\w\[]`)

// checkText checks a text constant for secrets.
func (k *checker) checkText(s string, at int) {
	if len(s) < 12 {
		return
	}
	if m := secretFormat.Get().FindString(s); m != "" && !isPlaceholder(m) {
		k.reportFault(Secret, at, "this text contains a secret", secretBetter)
		return
	}
	if !strings.Contains(s, "://") {
		return
	}
	if m := inURL.Get().FindStringSubmatch(s); m != nil && !isPlaceholder(m[1]) &&
		!strings.ContainsAny(m[1], "{}$<>%") {
		k.reportFault(Secret, at, "this address contains a password", secretBetter)
	}
}

// checkNamedSecret checks a constant with the name of a secret.
func (k *checker) checkNamedSecret(key string, n *node) {
	if n.kind != textNode && n.kind != listNode && n.kind != choiceNode {
		return
	}
	name := strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(key), "_", ""), "-", "")
	if n.kind == choiceNode { // process.env.TOKEN || "..."
		k.checkNamedSecret(key, n.kids[len(n.kids)-1])
		return
	}
	if n.kind == listNode { // auth=("user", "password")
		if name == "auth" && len(n.kids) == 2 && n.kids[1].kind == textNode {
			k.checkNamedSecret("password", n.kids[1])
		}
		return
	}
	word := secretName(name)
	s := n.text
	if name == "authorization" {
		word = "token"
		if _, after, ok := strings.Cut(s, " "); ok {
			s = after
		}
	}
	if word != "" && looksSecret(s, word == "password") {
		k.reportFault(Secret, n.at, "a secret is written into the program as "+shortKey(key), secretBetter)
	}
}

// shortKey returns a name that is short enough for a message.
func shortKey(key string) string {
	if len(key) > 40 {
		return key[:40]
	}
	return key
}

// secretName returns the kind of secret that a name without _ denotes, or "".
func secretName(name string) string {
	switch {
	case strings.HasSuffix(name, "password"), strings.HasSuffix(name, "passwd"), strings.HasSuffix(name, "passphrase"),
		name == "pwd", name == "pass", strings.HasSuffix(name, "dbpass"):
		return "password"
	case strings.HasSuffix(name, "apikey"), strings.HasSuffix(name, "secretkey"), strings.HasSuffix(name, "accesskey"),
		strings.HasSuffix(name, "secret"), strings.HasSuffix(name, "privatekey"), strings.HasSuffix(name, "authkey"),
		strings.HasSuffix(name, "credentials"), strings.HasSuffix(name, "signingkey"),
		strings.HasSuffix(name, "encryptionkey"), strings.HasSuffix(name, "secretaccesskey"), name == "bearer",
		strings.HasSuffix(name, "apisecret"), strings.HasSuffix(name, "clientsecret"):
		return "key"
	case strings.HasSuffix(name, "token") && !strings.Contains(name, "page") && !strings.Contains(name, "next") &&
		!strings.Contains(name, "continuation") && !strings.Contains(name, "cursor") && !strings.Contains(name, "sync"):
		return "token"
	}
	return ""
}

// looksSecret reports whether a constant is likely to be a secret rather than a name or an example.
func looksSecret(s string, password bool) bool {
	least := 16
	if password {
		least = 6
	}
	if len(s) < least || len(s) > 512 || strings.ContainsAny(s, " \n<>{}") || isPlaceholder(s) {
		return false
	}
	classes := 0
	for _, in := range [...]string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"} {
		if strings.ContainsAny(s, in) {
			classes++
		}
	}
	if password {
		if strings.ContainsAny(s, "!@#$%^&*+=?") {
			classes++
		}
		return classes >= 2 && countEntropy(s) > 2
	}
	return classes >= 2 && strings.ContainsAny(s, "0123456789") && countEntropy(s) > 3.2 &&
		!strings.HasPrefix(s, "http") && !strings.HasPrefix(s, "/")
}

// isPlaceholder reports whether a text stands for a secret without being one.
func isPlaceholder(s string) bool {
	low := strings.ToLower(s)
	for _, w := range [...]string{"example", "your", "xxx", "placeholder", "changeme", "change-me", "dummy", "redacted",
		"...", "***", "todo", "insert", "env.", "env:", "secret:", "vault:", "$(", "fake", "replace"} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return low == "password" || low == "secret"
}

// countEntropy returns the entropy of the characters of s in bits.
func countEntropy(s string) (bits float64) {
	var counts [256]int
	for i := range len(s) {
		counts[s[i]]++
	}
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
