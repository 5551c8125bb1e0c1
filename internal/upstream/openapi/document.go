package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"

	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// maxHops is the maximum length of a chain of references.
const maxHops = 32

// A source reads the files of a document. Names are slash-separated and relative to the document's
// folder, which no file may be outside of.
type source interface {
	// readFile returns the text of a file with at most the given number of bytes.
	readFile(ctx context.Context, name string, most int) ([]byte, error)
}

// A place is a value and the file that its references are relative to.
type place struct {
	file string
	n    *node
}

// A document is a parsed OpenAPI document, with the files that it refers to.
type document struct {
	name   string // of its file
	files  map[string]*node
	failed map[string]error
	source source
	left   int  // bytes that may still be read
	old    bool // 3.0 or converted from 2.0: schemas are not JSON Schema
	found  map[target]place
	ctx    context.Context // of the load
}

// A target is the target of a reference.
type target struct{ file, pointer string }

// loadDocument reads and parses a document. Swagger 2.0 is converted. The other files are read when
// a reference needs them.
func loadDocument(ctx context.Context, s source, name string) (*document, error) {
	d := &document{name: name, files: map[string]*node{}, failed: map[string]error{}, source: s, left: maxDocument,
		found: map[target]place{}, ctx: ctx}
	root, err := d.loadFile(name)
	if err != nil {
		return nil, err
	}
	version := root.getField("openapi")
	switch {
	case version != nil && strings.HasPrefix(version.text, "3.0"):
		d.old = true
	case version != nil && strings.HasPrefix(version.text, "3."):
	case root.getField("swagger") != nil:
		d.old = true
		if root, err = convertSwagger(root); err != nil {
			return nil, fmt.Errorf("the Swagger 2.0 document can't be converted: %w", err)
		}
		d.files[name] = root
	default:
		return nil, errors.New("it is not an OpenAPI document: it has neither openapi: 3.x nor swagger: \"2.0\"")
	}
	if paths := root.getField("paths"); paths == nil || paths.kind != mapKind {
		return nil, errors.New("it has no paths")
	}
	return d, nil
}

func (d *document) rootPlace() place { return place{d.name, d.files[d.name]} }

// loadFile returns the parsed file of a name, which is read once.
func (d *document) loadFile(name string) (*node, error) {
	if n := d.files[name]; n != nil {
		return n, nil
	}
	if err := d.failed[name]; err != nil {
		return nil, err
	}
	n, err := d.parseFile(name)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
		d.failed[name] = err
		return nil, err
	}
	d.files[name] = n
	return n, nil
}

func (d *document) parseFile(name string) (*node, error) {
	if len(d.files)+len(d.failed) >= maxFiles {
		return nil, fmt.Errorf("the document refers to more than %d files", maxFiles)
	}
	text, err := d.source.readFile(d.ctx, name, d.left)
	if err != nil {
		return nil, err
	}
	if d.left -= len(text); d.left < 0 {
		return nil, fmt.Errorf("the document and its files have more than %d MiB", maxDocument>>20)
	}
	return parseText(text)
}

// resolveTarget returns the target of a reference in a file.
func (d *document) resolveTarget(file, ref string) (target, error) {
	name, pointer, _ := strings.Cut(ref, "#")
	if name == "" {
		return target{file, pointer}, nil
	}
	plain, err := url.PathUnescape(name)
	if err != nil || strings.Contains(plain, "://") || strings.HasPrefix(plain, "/") ||
		strings.ContainsAny(plain, "\\\x00?") {
		return target{}, fmt.Errorf("the reference %q leaves the document's folder: copy its target there",
			web.ClipText(ref))
	}
	joined := path.Join(path.Dir(file), plain)
	if joined == ".." || strings.HasPrefix(joined, "../") {
		return target{}, fmt.Errorf("the reference %q leaves the document's folder: copy its target there",
			web.ClipText(ref))
	}
	return target{joined, pointer}, nil
}

// findTarget returns the value of a target.
func (d *document) findTarget(t target) (place, error) {
	if p, ok := d.found[t]; ok {
		return p, nil
	}
	n, err := d.loadFile(t.file)
	if err != nil {
		return place{}, err
	}
	missing := func() error { return fmt.Errorf("the reference %q names nothing", web.ClipText(t.file+"#"+t.pointer)) }
	if t.pointer != "" && !strings.HasPrefix(t.pointer, "/") {
		return place{}, missing() // an anchor
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(t.pointer, "/"), "/") {
		if t.pointer == "" {
			break
		}
		if plain, err := url.PathUnescape(part); err == nil {
			part = plain
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if n.kind == listKind {
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(n.list) {
				n = n.list[i]
				continue
			}
		}
		if n = n.getField(part); n == nil {
			return place{}, missing()
		}
	}
	p := place{t.file, n}
	d.found[t] = p
	return p, nil
}

// followRefs returns the value that a chain of references ends at.
func (d *document) followRefs(p place) (place, error) {
	for range maxHops {
		if p.n == nil || p.n.kind != mapKind {
			return p, nil
		}
		ref := p.n.getField("$ref")
		if ref == nil || ref.kind != stringKind {
			return p, nil
		}
		t, err := d.resolveTarget(p.file, ref.text)
		if err != nil {
			return place{}, err
		}
		if p, err = d.findTarget(t); err != nil {
			return place{}, err
		}
	}
	return place{}, fmt.Errorf("a chain of more than %d references: it may be a cycle", maxHops)
}

// getPlace returns the value of a field, with its references followed. Its node is nil if there is
// no such field.
func (d *document) getPlace(p place, name string) (place, error) {
	v := p.n.getField(name)
	if v == nil {
		return place{p.file, nil}, nil
	}
	return d.followRefs(place{p.file, v})
}

// convertSwagger converts Swagger 2.0 to OpenAPI 3.0. What can't be decoded is removed first, so
// that it affects only the operations that use it.
func convertSwagger(root *node) (_ *node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it hits a defect of the library: %s", web.ClipText(fmt.Sprint(p)))
		}
	}()
	pruneSwagger(root)
	var old openapi2.T
	if err := decodeNode(root, &old); err != nil {
		return nil, err
	}
	converted, err := openapi2conv.ToV3(&old)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(converted)
	if err != nil {
		return nil, err
	}
	return parseJSON(text)
}

// pruneSwagger replaces operations that can't be decoded by a mark, which makes them broken, and
// removes such definitions.
func pruneSwagger(root *node) {
	if paths := root.getField("paths"); paths != nil {
		for i, p := range paths.fields {
			if p.value.kind != mapKind && strings.HasPrefix(p.name, "/") {
				broken := field{brokenMark, newText("the path item is not a map")}
				p.value = newMap(field{"get", newMap(field{"responses", newMap()}, broken)})
				paths.fields[i] = p
			}
			for i, f := range p.value.fields {
				if !isMethod(f.name) {
					continue
				}
				if err := decodeNode(f.value, new(openapi2.Operation)); err != nil {
					p.value.fields[i].value = newMap(field{"responses", newMap()},
						field{brokenMark, newText(err.Error())})
				}
			}
		}
	}
	for _, part := range []string{"definitions", "parameters", "responses"} {
		n := root.getField(part)
		if n == nil {
			continue
		}
		kept := n.fields[:0]
		for _, f := range n.fields {
			var to any = new(openapi2.SchemaRef)
			switch part {
			case "parameters":
				to = new(openapi2.Parameter)
			case "responses":
				to = new(openapi2.Response)
			}
			if decodeNode(f.value, to) == nil {
				kept = append(kept, f)
			}
		}
		n.fields = kept
	}
}

// brokenMark is the field of an operation that says why it can't be used.
const brokenMark = "x-biplane-broken"
