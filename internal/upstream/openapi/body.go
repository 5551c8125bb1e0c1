package openapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// maxBody is the maximum size of a request's body.
const maxBody = 32 << 20

// A body describes the request bodies that an operation accepts.
type body struct {
	argument string // its name
	required bool
	types    []string // media types, the preferred one first
	encoding map[string]*node
}

// isJSONType reports whether a media type is JSON.
func isJSONType(t string) bool {
	t = plainType(t)
	return t == "application/json" || strings.HasSuffix(t, "+json") || t == "text/json"
}

func plainType(t string) string {
	t, _, _ = strings.Cut(t, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

const (
	formType      = "application/x-www-form-urlencoded"
	multipartType = "multipart/form-data"
)

// rankType orders media types of requests: the forms with structure first.
func rankType(t string) int {
	switch p := plainType(t); {
	case p == "application/json":
		return 0
	case isJSONType(p):
		return 1
	case p == formType:
		return 2
	case p == multipartType:
		return 3
	case strings.HasPrefix(p, "text/"):
		return 4
	case strings.Contains(p, "*"):
		return 6
	}
	return 5
}

// encodeBody returns the body and its content type for the value of an argument.
func (b *body) encodeBody(v *node, typ string) ([]byte, string, error) {
	var out []byte
	var err error
	switch p := plainType(typ); {
	case isJSONType(p):
		out = v.appendJSON(nil)
	case p == formType:
		out, err = b.encodeForm(v, typ)
	case p == multipartType:
		out, typ, err = b.encodeMultipart(v, typ)
	default:
		var given string
		if out, given, _, err = fileContent(v); given != "" {
			typ = given
		}
		if strings.Contains(typ, "*") {
			typ = "application/octet-stream"
		}
	}
	if err != nil {
		return nil, "", tool.Errorf(tool.Invalid, "%s: %w", b.argument, err)
	}
	if len(out) > maxBody {
		return nil, "", tool.Errorf(tool.Limit, "%s has %d bytes: at most %d MiB can be sent", b.argument, len(out),
			maxBody>>20)
	}
	return out, typ, nil
}

// fileContent returns the content of a file: a text, or the map described by fileSchema.
func fileContent(v *node) (data []byte, typ, name string, err error) {
	if v.kind == stringKind {
		return []byte(v.text), "", "", nil
	}
	if v.kind == mapKind && v.getField("base64") != nil {
		data, err = base64.StdEncoding.DecodeString(v.getText("base64"))
		if err != nil {
			return nil, "", "", fmt.Errorf("its base64 can't be decoded: %w", err)
		}
		typ = v.getText("content_type")
		if _, _, err := mime.ParseMediaType(typ); typ != "" && err != nil {
			return nil, "", "", fmt.Errorf("invalid content_type %q", web.ClipText(typ))
		}
		return data, typ, v.getText("filename"), nil
	}
	return v.appendJSON(nil), "", "", nil
}

func (b *body) encodeForm(v *node, typ string) ([]byte, error) {
	if v.kind != mapKind {
		return nil, fmt.Errorf("a form must be an object")
	}
	esc := func(s string) string { return escapeText(s, false) }
	var out []string
	for _, f := range v.fields {
		p := &parameter{name: f.name, style: "form", explode: true}
		rule := b.encoding[typ].getField(f.name)
		if style := rule.getText("style"); style != "" {
			p.style = style
			p.explode = style == "form"
		} else if f.value.kind == mapKind {
			p.asJSON = true
		}
		if e := rule.getField("explode"); e != nil {
			p.explode = e.isTrue()
		}
		if isJSONType(rule.getText("contentType")) {
			p.asJSON = true
		}
		if f.value.kind == nullKind {
			continue
		}
		for _, one := range p.formatQuery(f.value, esc) {
			out = append(out, one.name+"="+one.value)
		}
	}
	return []byte(strings.Join(out, "&")), nil
}

func (b *body) encodeMultipart(v *node, typ string) ([]byte, string, error) {
	if v.kind != mapKind {
		return nil, "", fmt.Errorf("a multipart form must be an object")
	}
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for _, f := range v.fields {
		parts := []*node{f.value}
		if f.value.kind == listKind {
			parts = f.value.list
		}
		contentType := b.encoding[typ].getField(f.name).getText("contentType")
		for _, part := range parts {
			if part.kind == nullKind {
				continue
			}
			if err := writePart(w, f.name, part, contentType); err != nil {
				return nil, "", fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return out.Bytes(), w.FormDataContentType(), nil
}

func writePart(w *multipart.Writer, name string, v *node, typ string) error {
	data, given, filename, err := []byte(scalarText(v)), "", "", error(nil)
	isFile := v.kind == mapKind && v.getField("base64") != nil
	switch {
	case isFile:
		if data, given, filename, err = fileContent(v); err != nil {
			return err
		}
		if filename == "" {
			filename = name
		}
		if given == "" {
			given = "application/octet-stream"
		}
	case v.kind == mapKind || v.kind == listKind:
		given = "application/json"
	}
	if typ != "" && !strings.ContainsAny(typ, "*,") && (given == "" || !isFile) {
		given = typ
	}
	h := textproto.MIMEHeader{}
	quote := strings.NewReplacer("\\", "\\\\", `"`, `\"`, "\r", "%0D", "\n", "%0A")
	disposition := fmt.Sprintf(`form-data; name="%s"`, quote.Replace(name))
	if filename != "" {
		disposition += fmt.Sprintf(`; filename="%s"`, quote.Replace(filename))
	}
	h.Set("Content-Disposition", disposition)
	if given != "" {
		if strings.ContainsAny(given, "\r\n") {
			return fmt.Errorf("invalid content type %q", web.ClipText(given))
		}
		h.Set("Content-Type", given)
	}
	p, err := w.CreatePart(h)
	if err == nil {
		_, err = p.Write(data)
	}
	return err
}
