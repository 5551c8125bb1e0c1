package identity

// KeyText writes a key of an id and a secret, with a checksum that is right.
func KeyText(id, secret string) string { return (&Key{ID: id}).text(secret) }

// SplitKey takes a key apart.
func SplitKey(text string) (id, secret string, ok bool) { return splitKey(text) }
