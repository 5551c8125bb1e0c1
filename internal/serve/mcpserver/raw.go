package mcpserver

import (
	"bytes"
	"encoding/json"
)

// A member is a key of a JSON object and the position of its value.
type member struct {
	key        string
	start, end int // of the value, in bytes of the object
}

// parseMembers returns the members of a JSON object without decoding their values. Keys are
// compared exactly and may repeat. If raw is not a valid JSON object, ok is false.
func parseMembers(raw []byte) (ms []member, ok bool) {
	if !json.Valid(raw) {
		return nil, false
	}
	return parseParts(raw)
}

// parseParts is members for input known to be valid JSON or empty, for which no index gets out of
// range.
func parseParts(raw []byte) (ms []member, ok bool) {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return nil, false
	}
	for i = skipSpace(raw, i+1); raw[i] != '}'; {
		if raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
		end := skipString(raw, i)
		var key string
		if json.Unmarshal(raw[i:end], &key) != nil {
			return nil, false
		}
		i = skipSpace(raw, skipSpace(raw, end)+1) // skip the colon
		end = skipValue(raw, i)
		ms = append(ms, member{key, i, end})
		i = skipSpace(raw, end)
	}
	return ms, true
}

// fieldOf returns the value of a key in an object whose members are ms, or nil if there is none. If
// the key repeats, the last value counts, as for most parsers.
func fieldOf(raw []byte, ms []member, key string) json.RawMessage {
	for i := len(ms) - 1; i >= 0; i-- {
		if ms[i].key == key {
			return raw[ms[i].start:ms[i].end]
		}
	}
	return nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that starts at i.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the index after the value that starts at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(b[i])) {
		i++
	}
	return i
}

// replaceField returns raw with the values of all members called key replaced, and all other bytes
// unchanged. If there is no such member, it is inserted in front.
func replaceField(raw []byte, ms []member, key string, value []byte) []byte {
	var out []byte
	last := 0
	for _, m := range ms {
		if m.key == key {
			out = append(append(out, raw[last:m.start]...), value...)
			last = m.end
		}
	}
	if last == 0 {
		return insertField(raw, ms, key, value)
	}
	return append(out, raw[last:]...)
}

// insertField returns the object raw with a member added in front.
func insertField(raw []byte, ms []member, key string, value []byte) []byte {
	open := bytes.IndexByte(raw, '{') + 1
	out := make([]byte, 0, len(raw)+len(key)+len(value)+4)
	out = append(out, raw[:open]...)
	out = append(out, '"')
	out = append(out, key...)
	out = append(out, '"', ':')
	out = append(out, value...)
	if len(ms) > 0 {
		out = append(out, ',')
	}
	return append(out, raw[open:]...)
}
