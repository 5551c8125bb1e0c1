package values

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Embed returns an embedded resource (MCP EmbeddedResource) with the content of a file. Its URI is
// base and the escaped path of the file. Data that is not UTF-8 becomes a blob.
func Embed(base, name string, data []byte) (json.RawMessage, error) {
	type resource struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType"`
		Text     *string `json:"text,omitempty"`
		Blob     *string `json:"blob,omitempty"`
	}
	res := resource{URI: base + escapePath(name), MimeType: mimeType(name, data)}
	if utf8.Valid(data) {
		s := string(data)
		res.Text = &s
	} else {
		s := base64.StdEncoding.EncodeToString(data)
		res.Blob = &s
	}
	return tool.Marshal(struct {
		Type     string   `json:"type"`
		Resource resource `json:"resource"`
	}{"resource", res})
}

// escapePath escapes a path for a URI.
func escapePath(p string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/!$&'()*+,;=:@"
	var b strings.Builder
	for _, c := range []byte(p) {
		if strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// mimeTypes are the types that the standard library doesn't know on every system.
var mimeTypes = lazily.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		".md": "text/markdown", ".csv": "text/csv", ".tsv": "text/tab-separated-values", ".txt": "text/plain",
		".log":  "text/plain",
		".json": "application/json", ".jsonl": "application/jsonl", ".ndjson": "application/x-ndjson",
		".yaml": "application/yaml", ".yml": "application/yaml",
		".ts": "text/typescript", ".py": "text/x-python", ".js": "text/javascript", ".html": "text/html",
		".xml": "application/xml", ".svg": "image/svg+xml",
	}
}}

// mimeType returns the MIME type of a file by its name, or else by its content.
func mimeType(name string, data []byte) string {
	ext := strings.ToLower(path.Ext(name))
	if t := mimeTypes.Get()[ext]; t != "" {
		return t
	}
	t := http.DetectContentType(data)
	if kind, _, err := mime.ParseMediaType(t); err == nil {
		return kind
	}
	return t
}
