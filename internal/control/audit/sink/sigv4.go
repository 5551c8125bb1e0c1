package sink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A credential signs requests (AWS Signature Version 4).
type credential struct {
	id, secret, token string // token: of temporary credentials, or empty
	region, service   string
}

const (
	sigAlgorithm = "AWS4-HMAC-SHA256"
	sigTime      = "20060102T150405Z"
)

// signRequest adds the headers X-Amz-Date and Authorization to r. payload is the SHA-256 of its
// body, in hexadecimal. It signs the host and all headers of r except Authorization and User-Agent,
// so that they can't be changed in transit.
func (c credential) signRequest(r *http.Request, payload string, now time.Time) {
	stamp := now.UTC().Format(sigTime)
	r.Header.Set("X-Amz-Date", stamp)
	if c.token != "" {
		r.Header.Set("X-Amz-Security-Token", c.token)
	}
	names, headers := canonicalHeaders(r)
	request := strings.Join([]string{r.Method, canonicalPath(r.URL, c.service), canonicalQuery(r.URL), headers, names,
		payload}, "\n")
	scope := strings.Join([]string{stamp[:8], c.region, c.service, "aws4_request"}, "/")
	sum := sha256.Sum256([]byte(request))
	text := strings.Join([]string{sigAlgorithm, stamp, scope, hex.EncodeToString(sum[:])}, "\n")
	key := []byte("AWS4" + c.secret)
	for _, part := range []string{stamp[:8], c.region, c.service, "aws4_request"} {
		key = hmacSHA256(key, part)
	}
	r.Header.Set("Authorization", sigAlgorithm+" Credential="+c.id+"/"+scope+",SignedHeaders="+names+",Signature="+
		hex.EncodeToString(hmacSHA256(key, text)))
}

func hmacSHA256(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// canonicalHeaders returns the names of the signed headers, and the headers with their values, one
// per line.
func canonicalHeaders(r *http.Request) (names, headers string) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	values := map[string]string{"host": host}
	for k, vs := range r.Header {
		if k == "Authorization" || k == "User-Agent" { // proxies may change User-Agent
			continue
		}
		trimmed := make([]string, len(vs))
		for i, v := range vs {
			trimmed[i] = strings.Join(strings.Fields(v), " ")
		}
		values[strings.ToLower(k)] = strings.Join(trimmed, ",")
	}
	keys := make([]string, 0, len(values))
	for k := range values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(k + ":" + values[k] + "\n")
	}
	return strings.Join(keys, ";"), b.String()
}

// canonicalPath returns the path with each segment encoded: once for S3, twice for all other
// services.
func canonicalPath(u *url.URL, service string) string {
	path := u.Path
	if path == "" {
		path = "/"
	}
	encoded := percentEncode(path, true)
	if service != "s3" {
		encoded = percentEncode(encoded, true)
	}
	return encoded
}

func canonicalQuery(u *url.URL) string {
	var pairs []string
	for k, vs := range u.Query() {
		for _, v := range vs {
			pairs = append(pairs, percentEncode(k, false)+"="+percentEncode(v, false))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// percentEncode percent-encodes all but the unreserved characters of RFC 3986 and, in a path,
// slashes.
func percentEncode(s string, path bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0,
			path && c == '/':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
