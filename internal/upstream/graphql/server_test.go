package graphql_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// A resolver returns the value of a field of the query or mutation type.
type resolver func(r *http.Request, args map[string]any) (any, error)

// A received is a request that the server has received.
type received struct {
	Query     string         `json:"query"`
	Variables map[string]any `json:"variables"`
	header    http.Header
}

// A server is a small GraphQL server. It validates and executes documents.
type server struct {
	*httptest.Server
	schema    *ast.Schema
	resolvers map[string]resolver
	got       chan received
	handle    http.HandlerFunc // instead of GraphQL; may be nil
}

func newServer(t testing.TB, sdl string, resolvers map[string]resolver) *server {
	t.Helper()
	schema, err := validator.LoadSchema(validator.Prelude, &ast.Source{Name: "test", Input: sdl})
	if err != nil {
		t.Fatalf("load the schema: %v", err)
	}
	s := &server{schema: schema, resolvers: resolvers, got: make(chan received, 1000)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.Close() })
	return s
}

// ServeHTTP answers a request (GraphQL over HTTP).
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in received
	d := json.NewDecoder(r.Body)
	d.UseNumber()
	if err := d.Decode(&in); err != nil && s.handle == nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in.header = r.Header
	if strings.Contains(in.Query, "IntrospectionQuery") {
		writeJSON(w, map[string]any{"data": map[string]any{"__schema": introspect(s.schema)}})
		return
	}
	s.got <- in
	if s.handle != nil {
		s.handle(w, r)
		return
	}
	writeJSON(w, s.execute(r, in))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (s *server) execute(r *http.Request, in received) map[string]any {
	doc, err := parser.ParseQuery(&ast.Source{Input: in.Query})
	if err != nil {
		return map[string]any{"errors": gqlerror.List{{Message: err.Error()}}}
	}
	if errs := validator.ValidateWithRules(s.schema, doc, rules.NewDefaultRules()); len(errs) > 0 {
		return map[string]any{"errors": errs}
	}
	op := doc.Operations[0]
	variables, err := validator.VariableValues(s.schema, op, in.Variables)
	if err != nil {
		return map[string]any{"errors": gqlerror.List{{Message: err.Error()}}}
	}
	var failed gqlerror.List
	data := map[string]any{}
	for _, f := range fieldsOf(op.SelectionSet, "") {
		if f.Name == "__typename" {
			data[f.Alias] = f.ObjectDefinition.Name
			continue
		}
		v, err := s.resolvers[f.Name](r, f.ArgumentMap(variables))
		if err != nil {
			e := &gqlerror.Error{Message: err.Error(), Path: ast.Path{ast.PathName(f.Alias)}}
			if code, ok := strings.CutPrefix(err.Error(), "code "); ok {
				e.Extensions = map[string]any{"code": code}
			}
			failed = append(failed, e)
		}
		data[f.Alias] = choose(f.SelectionSet, v)
	}
	out := map[string]any{"data": data}
	if len(failed) > 0 {
		out["errors"] = failed
		if !slices.ContainsFunc(op.SelectionSet, func(x ast.Selection) bool {
			return data[x.(*ast.Field).Alias] != nil
		}) {
			out["data"] = nil
		}
	}
	return out
}

// fieldsOf returns the fields of a selection for an object of a type.
func fieldsOf(set ast.SelectionSet, typ string) (out []*ast.Field) {
	for _, x := range set {
		switch x := x.(type) {
		case *ast.Field:
			out = append(out, x)
		case *ast.InlineFragment:
			if typ == "" || x.TypeCondition == typ || x.TypeCondition == "" {
				out = append(out, fieldsOf(x.SelectionSet, typ)...)
			}
		case *ast.FragmentSpread:
			out = append(out, fieldsOf(x.Definition.SelectionSet, typ)...)
		}
	}
	return out
}

// choose returns the selected part of a value.
func choose(set ast.SelectionSet, v any) any {
	switch v := v.(type) {
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, choose(set, e))
		}
		return out
	case map[string]any:
		typ, _ := v["__typename"].(string)
		out := map[string]any{}
		for _, f := range fieldsOf(set, typ) {
			out[f.Alias] = choose(f.SelectionSet, v[f.Name])
		}
		return out
	}
	return v
}

// introspect returns the answer to the introspection query.
func introspect(s *ast.Schema) map[string]any {
	name := func(d *ast.Definition) any {
		if d == nil {
			return nil
		}
		return map[string]any{"name": d.Name}
	}
	var types, directives []any
	for _, d := range s.Types {
		types = append(types, introspectType(s, d))
	}
	for _, d := range s.Directives {
		directives = append(directives, map[string]any{"name": d.Name, "locations": d.Locations,
			"args": introspectInputs(s, d.Arguments)})
	}
	return map[string]any{"queryType": name(s.Query), "mutationType": name(s.Mutation),
		"subscriptionType": name(s.Subscription), "types": types, "directives": directives}
}

func introspectType(s *ast.Schema, d *ast.Definition) map[string]any {
	out := map[string]any{"kind": d.Kind, "name": d.Name, "description": d.Description}
	var fields, inputs, values, interfaces, possible []any
	for _, f := range d.Fields {
		if d.Kind == ast.InputObject {
			inputs = append(inputs, introspectInputs(s, ast.ArgumentDefinitionList{{Name: f.Name, Type: f.Type,
				Description: f.Description, DefaultValue: f.DefaultValue}})...)
			continue
		}
		if strings.HasPrefix(f.Name, "__") {
			continue
		}
		fields = append(fields, map[string]any{"name": f.Name, "description": f.Description,
			"args": introspectInputs(s, f.Arguments), "type": introspectRef(s, f.Type),
			"isDeprecated": f.Directives.ForName("deprecated") != nil})
	}
	for _, v := range d.EnumValues {
		values = append(values, map[string]any{"name": v.Name})
	}
	for _, i := range d.Interfaces {
		interfaces = append(interfaces, map[string]any{"kind": "INTERFACE", "name": i})
	}
	if d.IsAbstractType() {
		for _, p := range s.GetPossibleTypes(d) {
			possible = append(possible, map[string]any{"kind": "OBJECT", "name": p.Name})
		}
	}
	out["fields"], out["inputFields"], out["enumValues"] = fields, inputs, values
	out["interfaces"], out["possibleTypes"] = interfaces, possible
	return out
}

func introspectInputs(s *ast.Schema, all ast.ArgumentDefinitionList) (out []any) {
	for _, a := range all {
		one := map[string]any{"name": a.Name, "description": a.Description, "type": introspectRef(s, a.Type)}
		if a.DefaultValue != nil {
			one["defaultValue"] = a.DefaultValue.String()
		}
		out = append(out, one)
	}
	return out
}

func introspectRef(s *ast.Schema, t *ast.Type) any {
	if t.NonNull {
		inner := *t
		inner.NonNull = false
		return map[string]any{"kind": "NON_NULL", "ofType": introspectRef(s, &inner)}
	}
	if t.Elem != nil {
		return map[string]any{"kind": "LIST", "ofType": introspectRef(s, t.Elem)}
	}
	return map[string]any{"kind": s.Types[t.NamedType].Kind, "name": t.NamedType}
}

// shopSDL is the schema of a shop.
const shopSDL = `
directive @slow(ms: Int) on FIELD
interface Node { id: ID! }
enum Size { SMALL LARGE }
scalar Money
type Product implements Node {
  id: ID! name: String! price: Money size: Size
  old: String @deprecated
  localized(language: String!): String
  owner: Person variants: [Variant!]!
  reviews(first: Int): [Review!]
}
type Variant { sku: String! product: Product! stock: Stock }
type Stock { count: Int! place: Place }
type Place { name: String! country: Country }
type Country { code: String! planet: Planet }
type Planet { name: String }
type Review { text: String }
type Person implements Node { id: ID! name: String favourite: Product }
union Found = Product | Person
input Filter { text: String = "x" sizes: [Size!] and: [Filter!] min: Int! }
type Page { nodes: [Product!]! edges: [Edge!]! pageInfo: Info! }
type Edge { node: Product! }
type Info { endCursor: String hasNextPage: Boolean! }
type Query {
  "One product."
  product(id: ID!): Product
  products(filter: Filter, first: Int! = 10): Page!
  search(text: String!): [Found!]!
  node(id: ID!): Node
  echo(i: Int!): Int
  fail: String
  slow: String
  query: String
  same: Int
}
type Mutation {
  rename(id: ID!, name: String!): Product
  same: Int
}
type Subscription { changed: Product }
`

func shopResolvers() map[string]resolver {
	ann := map[string]any{"__typename": "Person", "id": "2", "name": "Ann"}
	product := map[string]any{"__typename": "Product", "id": "1", "name": "Tea", "price": "4.20", "size": "SMALL",
		"owner": ann, "variants": []any{map[string]any{"sku": "t-1",
			"stock": map[string]any{"count": 7, "place": map[string]any{"name": "Shelf"}}}}}
	return map[string]resolver{
		"product": func(_ *http.Request, args map[string]any) (any, error) {
			if fmt.Sprint(args["id"]) != "1" {
				return nil, nil
			}
			return product, nil
		},
		"products": func(*http.Request, map[string]any) (any, error) {
			return map[string]any{"nodes": []any{product}, "pageInfo": map[string]any{"hasNextPage": false}}, nil
		},
		"search": func(*http.Request, map[string]any) (any, error) { return []any{product, ann}, nil },
		"node":   func(*http.Request, map[string]any) (any, error) { return product, nil },
		"echo":   func(_ *http.Request, args map[string]any) (any, error) { return args["i"], nil },
		"fail":   func(*http.Request, map[string]any) (any, error) { return nil, errors.New("out of tea") },
		"slow": func(r *http.Request, _ map[string]any) (any, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"query": func(*http.Request, map[string]any) (any, error) { return "q", nil },
		"same":  func(*http.Request, map[string]any) (any, error) { return 7, nil },
		"rename": func(_ *http.Request, args map[string]any) (any, error) {
			if args["name"] == "" {
				return nil, errors.New("code THROTTLED")
			}
			return map[string]any{"__typename": "Product", "id": args["id"], "name": args["name"],
				"variants": []any{}}, nil
		},
	}
}
