package identity

// KeyText returns a key with an id, a secret and a valid checksum.
func KeyText(id, secret string) string { return (&Key{ID: id}).fullText(secret) }

// SplitKey calls splitKey.
func SplitKey(text string) (id, secret string, ok bool) { return splitKey(text) }
