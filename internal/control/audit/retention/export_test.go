package retention

// Redact reports whether the fast path finds nothing to redact, and returns the fully redacted
// data.
func Redact(p Policy, data []byte) (plain bool, redacted []byte) {
	k := NewKeeper(nil, p)
	return k.isPlain(data), k.redactSlowly(data)
}

// KeptBytes is the limit of what is kept.
const KeptBytes = keptBytes
