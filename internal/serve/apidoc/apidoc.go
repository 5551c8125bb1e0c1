// Package apidoc writes the OpenAPI document of an HTTP API from its routes and the Go types of its
// requests and responses.
package apidoc

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
)

// A Route is one operation of the API.
type Route struct {
	Method, Path string // as in the pattern of http.ServeMux
	Access       string // what it requires of its callers
	Open         bool   // it needs no sign-in
	Operation    Operation
}

// An Operation describes what a route does.
type Operation struct {
	ID      string // unique name
	Summary string
	Query   []Parameter
	Header  []Parameter
	Body    reflect.Type // of the request, as JSON; nil: an empty object for POST, otherwise none
	Upload  bool         // the request is a file
	Result  reflect.Type // of the response, as JSON; nil: a file
	Status  int          // of the response; 0: 200
}

// A Parameter is a parameter of a request.
type Parameter struct {
	Name     string
	About    string
	Kind     string // "string", "integer", "boolean", "date-time"
	List     bool   // it may be repeated
	Required bool
}

// An Info describes the API.
type Info struct {
	Title, Version, About string
	Error                 reflect.Type // of the responses that are not 2xx, as application/problem+json
	Accesses              []Access     // in the order of the document
}

// An Access explains what a route requires of its callers.
type Access struct {
	Name  string `json:"name"`
	About string `json:"description"`
}

type document struct {
	OpenAPI  string                          `json:"openapi"`
	Info     info                            `json:"info"`
	Accesses []Access                        `json:"x-accesses"`
	Paths    map[string]map[string]operation `json:"paths"`
	Parts    components                      `json:"components"`
}

type info struct {
	Title   string `json:"title"`
	Version string `json:"version"`
	About   string `json:"description"`
}

type components struct {
	Schemas  map[string]*schema        `json:"schemas"`
	Security map[string]securityScheme `json:"securitySchemes"`
}

type securityScheme struct {
	Type   string `json:"type"`
	Scheme string `json:"scheme"`
	About  string `json:"description"`
}

type operation struct {
	ID         string                `json:"operationId"`
	Summary    string                `json:"summary"`
	Access     string                `json:"x-access"`
	Security   []map[string][]string `json:"security"`
	Parameters []parameter           `json:"parameters,omitempty"`
	Body       *body                 `json:"requestBody,omitempty"`
	Responses  map[string]response   `json:"responses"`
}

type parameter struct {
	Name     string  `json:"name"`
	In       string  `json:"in"`
	About    string  `json:"description,omitempty"`
	Required bool    `json:"required,omitempty"`
	Schema   *schema `json:"schema"`
}

type body struct {
	Required bool               `json:"required"`
	Content  map[string]content `json:"content"`
}

type content struct {
	Schema *schema `json:"schema"`
}

type response struct {
	About   string             `json:"description"`
	Content map[string]content `json:"content"`
}

// A schema is the part of JSON Schema that Go types need. The empty schema allows every value.
type schema struct {
	Ref        string             `json:"$ref,omitempty"`
	Type       string             `json:"type,omitempty"`
	Format     string             `json:"format,omitempty"`
	Enum       []json.RawMessage  `json:"enum,omitempty"`
	AnyOf      []*schema          `json:"anyOf,omitempty"`
	Items      *schema            `json:"items,omitempty"`
	Additional *schema            `json:"additionalProperties,omitempty"`
	Properties map[string]*schema `json:"properties,omitempty"`
	Required   []string           `json:"required,omitempty"`
}

const file = "application/octet-stream"

// WriteDocument returns the OpenAPI 3.1 document of an API.
func WriteDocument(about Info, routes []Route) ([]byte, error) {
	t := &types{map[string]*schema{}}
	failed := t.describeType(about.Error)
	d := document{OpenAPI: "3.1.0", Info: info{about.Title, about.Version, about.About}, Accesses: about.Accesses,
		Paths: map[string]map[string]operation{}, Parts: components{Security: map[string]securityScheme{
			"credential": {"http", "bearer", "an API key, or an access token of an identity provider"}}}}
	for _, r := range routes {
		o := r.Operation
		out := operation{ID: o.ID, Summary: o.Summary, Access: r.Access, Security: []map[string][]string{{}},
			Responses: map[string]response{"default": {"an error",
				map[string]content{"application/problem+json": {failed}}}}}
		if !r.Open {
			out.Security = []map[string][]string{{"credential": {}}}
		}
		path := strings.ReplaceAll(r.Path, "...}", "}")
		for _, part := range strings.Split(path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				out.Parameters = append(out.Parameters, parameter{Name: strings.TrimSuffix(name, "}"), In: "path",
					Required: true, Schema: &schema{Type: "string"}})
			}
		}
		out.addParameters("query", o.Query)
		out.addParameters("header", o.Header)
		out.Body = t.describeBody(r.Method, o)
		status := o.Status
		if status == 0 {
			status = http.StatusOK
		}
		answer := map[string]content{file: {&schema{Type: "string", Format: "binary"}}}
		if o.Result != nil {
			answer = map[string]content{"application/json": {t.describeType(o.Result)}}
		}
		out.Responses[strconv.Itoa(status)] = response{"success", answer}
		if d.Paths[path] == nil {
			d.Paths[path] = map[string]operation{}
		}
		d.Paths[path][strings.ToLower(r.Method)] = out
	}
	d.Parts.Schemas = t.named
	return json.MarshalIndent(d, "", "  ")
}

func (o *operation) addParameters(in string, list []Parameter) {
	for _, p := range list {
		s := &schema{Type: p.Kind}
		if p.Kind == "date-time" {
			s = &schema{Type: "string", Format: p.Kind}
		}
		if p.List {
			s = &schema{Type: "array", Items: s}
		}
		o.Parameters = append(o.Parameters, parameter{Name: p.Name, In: in, About: p.About, Required: p.Required,
			Schema: s})
	}
}

func (t *types) describeBody(method string, o Operation) *body {
	switch {
	case o.Upload:
		return &body{true, map[string]content{file: {&schema{Type: "string", Format: "binary"}}}}
	case o.Body != nil:
		return &body{true, map[string]content{"application/json": {t.describeType(o.Body)}}}
	case method == http.MethodPost:
		return &body{true, map[string]content{"application/json": {&schema{Type: "object"}}}}
	}
	return nil
}
