package function

import (
	"slices"
)

// readMembers reads the members of an object type after its brace, and the closing brace.
func (r *typeReader) readMembers() schema {
	var properties schema
	var required []string
	out := ofType("object")
	var extra any
	for r.at < len(r.toks) && !r.isSign("}") {
		t := r.peekToken()
		for t.kind == wordToken && (t.text == "readonly" || t.text == "public") && r.at+1 < len(r.toks) &&
			(r.toks[r.at+1].kind == wordToken || r.toks[r.at+1].kind == stringToken) {
			doc := t.doc
			r.at++
			if t = r.peekToken(); t.doc == "" {
				t.doc = doc
			}
		}
		r.at++
		switch {
		case t.kind == signToken && t.text == "[": // an index signature
			r.skipTo()
			r.acceptSign("]")
			if r.acceptSign(":") {
				extra, _ = r.readType()
			}
		case t.kind == wordToken || t.kind == stringToken || t.kind == numberToken:
			s, optional, ok := r.readMember(t)
			if ok && properties.getKey(t.text) == nil {
				properties = append(properties, pair{t.text, s.withKey("description", t.doc)})
				if !optional {
					required = append(required, t.text)
				}
			}
		default:
			r.skipTo()
		}
		if !r.acceptSign(";") {
			r.acceptSign(",")
		}
	}
	r.acceptSign("}")
	if properties == nil && extra != nil {
		return out.withKey("additionalProperties", extra)
	}
	return objectOf(properties, required, extra)
}

// objectOf returns the schema of an object.
func objectOf(properties schema, required []string, extra any) schema {
	if properties == nil {
		properties = schema{}
	}
	out := ofType("object").withKey("properties", properties)
	if len(required) > 0 {
		out = out.withKey("required", required)
	}
	if extra != nil {
		out = out.withKey("additionalProperties", extra)
	}
	return out
}

// readMember reads a member after its name. ok is false for a method.
func (r *typeReader) readMember(t token) (s schema, optional, ok bool) {
	optional = r.acceptSign("?")
	if !r.acceptSign(":") {
		r.skipTo() // a method, or no type
		r.addNote("%s is left out: it has no type, or is a method", t.text)
		return nil, true, false
	}
	s, undefined := r.readType()
	return s, optional || undefined, true
}

// joinAlternatives returns the schema of a union.
func joinAlternatives(all []schema) schema {
	var out []schema
	for _, s := range all {
		if len(s) == 0 {
			return schema{} // any
		}
		out = append(out, s)
	}
	switch len(out) {
	case 0:
		return schema{}
	case 1:
		return out[0]
	}
	var values []any
	for _, s := range out {
		switch {
		case s.getKey("const") != nil:
			values = append(values, s.getKey("const"))
		case len(s) == 1 && s[0].key == "enum":
			list, _ := s[0].value.([]any)
			values = append(values, list...)
		case len(s) == 1 && s.getKey("type") == "null":
			values = append(values, nil)
		default:
			return schema{{"anyOf", out}}
		}
	}
	return schema{{"enum", values}}
}

// mergeObjects returns the schema of an intersection: one object if both are objects.
func mergeObjects(a, b schema) schema {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	case a.getKey("type") != "object" || b.getKey("type") != "object":
		return schema{{"allOf", []schema{a, b}}}
	}
	pa, _ := a.getKey("properties").(schema)
	pb, _ := b.getKey("properties").(schema)
	ra, _ := a.getKey("required").([]string)
	rb, _ := b.getKey("required").([]string)
	properties, required := slices.Clone(pa), slices.Clone(ra)
	for _, p := range pb {
		if i := slices.IndexFunc(properties, func(q pair) bool { return q.key == p.key }); i >= 0 {
			properties[i] = p
		} else {
			properties = append(properties, p)
		}
	}
	for _, k := range rb {
		if !slices.Contains(required, k) {
			required = append(required, k)
		}
	}
	extra := a.getKey("additionalProperties")
	if extra == nil {
		extra = b.getKey("additionalProperties")
	}
	return objectOf(properties, required, extra)
}

func withoutKey(s schema, key string) schema {
	return slices.DeleteFunc(slices.Clone(s), func(p pair) bool { return p.key == key })
}

// chooseProperties returns an object with the named properties (keep), or without them.
func chooseProperties(s schema, names []string, keep bool) schema {
	properties, ok := s.getKey("properties").(schema)
	if !ok {
		return s
	}
	properties = slices.DeleteFunc(slices.Clone(properties), func(p pair) bool {
		return slices.Contains(names, p.key) != keep
	})
	required, _ := s.getKey("required").([]string)
	required = slices.DeleteFunc(slices.Clone(required), func(k string) bool {
		return slices.Contains(names, k) != keep
	})
	return objectOf(properties, required, s.getKey("additionalProperties"))
}
