//go:build ignore

// Reduce reduces an OpenAPI document to what the search of tools reads: names, texts and parameters of
// operations.
//
//	go run reduce.go api.github.com.json github.json.gz
package main

import (
	"compress/gzip"
	"encoding/json"
	"log"
	"os"
	"slices"
	"strings"
)

type object = map[string]any

var root object

func main() {
	log.SetFlags(0)
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(text, &root)
	}
	if err != nil {
		log.Fatal(err)
	}
	paths := object{}
	for path, item := range at(root, "paths") {
		out := object{}
		for method, v := range follow(item) {
			if o, ok := v.(object); ok && slices.Contains([]string{"get", "put", "post", "delete", "options", "head",
				"patch", "trace"}, method) {
				out[method] = reduceOperation(o, follow(item)["parameters"])
			}
		}
		paths[path] = out
	}
	info := at(root, "info")
	f, err := os.Create(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err := json.NewEncoder(z).Encode(object{"openapi": "3.1.0", "paths": paths,
		"info": object{"title": info["title"], "version": info["version"]}}); err != nil {
		log.Fatal(err)
	}
	if err := z.Close(); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
}

func at(v any, keys ...string) object {
	for _, k := range keys {
		o, _ := v.(object)
		v = o[k]
	}
	o, _ := v.(object)
	return o
}

// follow returns an object, or the one that it refers to.
func follow(v any) object {
	o, _ := v.(object)
	for range 10 {
		ref, ok := o["$ref"].(string)
		if !ok {
			break
		}
		o = root
		for _, k := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			o = at(o, strings.NewReplacer("~1", "/", "~0", "~").Replace(k))
		}
	}
	return o
}

func clip(v any, n int) string {
	s, _ := v.(string)
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}

func reduceOperation(o object, shared any) object {
	out := object{"responses": object{"default": object{"description": ""}}}
	for _, k := range []string{"operationId", "summary", "tags", "deprecated"} {
		if o[k] != nil {
			out[k] = o[k]
		}
	}
	out["description"] = clip(o["description"], 2000)
	var params []any
	body := object{}
	all, _ := shared.([]any)
	own, _ := o["parameters"].([]any)
	for _, v := range slices.Concat(all, own) {
		p := follow(v)
		switch p["in"] {
		case "body":
			body = follow(p["schema"])
		case "path", "query", "header", "cookie":
			schema := follow(p["schema"])
			if schema == nil {
				schema = p
			}
			params = append(params, object{"name": p["name"], "in": p["in"], "required": p["in"] == "path",
				"description": clip(p["description"], 150), "schema": parameterSchema(schema)})
		}
	}
	if params != nil {
		out["parameters"] = params
	}
	for _, m := range at(follow(o["requestBody"]), "content") {
		body = follow(at(m, "schema"))
	}
	if len(body) > 0 {
		out["requestBody"] = object{"content": object{"application/json": object{"schema": reduceSchema(body, 2)}}}
	}
	return out
}

func parameterSchema(schema object) object {
	if list, _ := schema["enum"].([]any); len(list) > 0 {
		return object{"type": "string", "enum": list[:min(len(list), 20)]}
	}
	return object{"type": "string"}
}

// reduceSchema returns the properties of a schema by name, to a depth.
func reduceSchema(s object, depth int) object {
	out := object{"description": clip(s["description"], 100)}
	props := object{}
	add := func(s object) {
		for name, v := range at(s, "properties") {
			if depth > 1 {
				props[name] = reduceSchema(follow(v), depth-1)
			} else {
				props[name] = object{}
			}
		}
	}
	add(s)
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[k].([]any)
		for _, v := range list {
			add(follow(v))
		}
	}
	if items := follow(s["items"]); len(at(items, "properties")) > 0 && depth > 1 {
		add(items)
	}
	if len(props) > 0 {
		out["properties"] = props
	}
	return out
}
