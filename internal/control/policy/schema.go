package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// schemaHead defines everything that policies can name except the arguments of tools.
const schemaHead = `// What policies can name. context.arguments has the type of the tool that is called: see the end.
// Annotations of permits: @ask("group, ..."), @tier("gvisor"), @limit("calls: 10 per 1m, ..."),
// @redact("field.path, ...").
entity Group;
entity User in [Group] = {
  id: String,             // "local:ann", "key:ci": as the record has it
  name: String,           // for people; proves nothing
  person: String,         // who acts, or for whom the agent acts; "" if unknown
  agent: String,          // the name of an API key, the client_id of a token; "" if there is none
  client: String,         // client software, "name/version", as it says itself
  profile: String,        // endpoint through which the request came; empty: none
  roles: Set<String>,     // "viewer", "auditor", "approver", "user", "admin"
  groups: Set<String>,    // as the issuer names them; also principal in Group::"..."
  scopes: Set<String>,    // what the credential was given out for
};
entity Upstream;
entity Tool in [Upstream] = {
  name: String,           // at the upstream; the entity is Tool::"<upstream>.<name>"
  upstream: String,
  readOnly: Bool,         // from the configuration, or the upstream's hint; otherwise the worse is assumed
  destructive: Bool,
  idempotent: Bool,
  openWorld: Bool,
  tags: Set<String>,      // of the configuration
  labels: Set<String>,    // of the configuration: "confidential", "pii", "untrusted", "public", "external"
};
entity Folder;
entity File in [Folder] = { // of a program; it has the attributes of tools, too, for policies that name no action
  path: String,           // "workspace/data.csv", "skills/retry.ts"; the entity is File::"<path>", in each of its folders
  name: String,           // the last part of path
  readOnly: Bool,         // it is read, not written
  destructive: Bool,      // it is written
  upstream: String, idempotent: Bool, openWorld: Bool, tags: Set<String>, labels: Set<String>, // "", false, false, none, none
};
entity Host = {           // of the network; it has the attributes of tools, too
  host: String,           // "api.example.com", in lower case; the entity is Host::"<host>"
  port: Long,             // 443
  scheme: String,         // "https", "http"
  name: String,           // as host
  readOnly: Bool,         // false: whatever is asked for carries data out
  destructive: Bool, idempotent: Bool, // by the method: all but GET and HEAD may change something
  upstream: String, openWorld: Bool, tags: Set<String>, labels: Set<String>, // "", true, none, ["external"]
};
`

const schemaContext = `  arguments: %s,
  program: Bool,          // the call comes from inside a program
  labels: Set<String>,    // of what the session has read
  findings: Set<String>,  // rules of the review's findings about the program that makes the call or is started
  kinds: Set<String>,     // of personal data that the call would be given, in action reveal: "email", "card"; else empty
  tier: String,           // at which programs run: "wasm", "process", "gvisor", "microvm"
  client: String,         // as principal.client
  now: datetime,
  hour: Long,             // 0 to 23, in the time zone of the machine
  weekday: String,        // "monday"
`

const schemaActions = `action "call" appliesTo { principal: User, resource: Tool, context: Context };
action "execute" appliesTo { principal: User, resource: Tool, context: Context };
action "reveal" appliesTo { principal: User, resource: Tool, context: Context };  // to turn tokens of personal data back in arguments
`

const schemaRest = `action "read", "write" appliesTo { principal: User, resource: File, context: FileContext };
action "connect" appliesTo { principal: User, resource: Host, context: ConnectContext };
`

// schemaFor returns the Cedar schema of calls whose arguments have the given type.
func schemaFor(arguments string) string {
	return schemaHead + "type Context = {\n" + fmt.Sprintf(schemaContext, arguments) + "};\n" + schemaActions
}

// schemaOfAll is like schemaFor, with the actions other than calls.
func schemaOfAll(arguments string) string {
	return schemaFor(arguments) + "type FileContext = {\n" + fmt.Sprintf(schemaContext, "{}") +
		"};\ntype ConnectContext = {\n" +
		fmt.Sprintf(schemaContext, "{}") + "  method: String,         // \"GET\"\n" +
		"  path: String,           // \"/items\", percent-encoded, without the query\n};\n" + schemaRest
}

// Schema returns the Cedar schema of everything that policies can name, including the types of the
// tools' arguments.
func Schema(tools []*tool.Tool) string {
	var b strings.Builder
	b.WriteString(schemaOfAll("Arguments"))
	b.WriteString("\n// The arguments of tools. Arguments is any of these, so that what is not required is asked for " +
		"with has first.\ntype Arguments = {};\n")
	used := map[string]bool{}
	for _, t := range slices.SortedFunc(slices.Values(tools), func(a, b *tool.Tool) int {
		return strings.Compare(a.Path(), b.Path())
	}) {
		name := "Arguments_" + cedarIdentifier(t.Path())
		for used[name] {
			name += "_"
		}
		used[name] = true
		fmt.Fprintf(&b, "\n// Tool::%s\ntype %s = %s;\n", quoteCedar(t.Path()), name,
			shapeOf(t.InputSchema).cedarType("", nil))
	}
	return b.String()
}

// cedarType returns the shape as a Cedar type. It omits parts that have no Cedar type, and adds
// their paths to unknown.
func (s *shape) cedarType(path string, unknown map[string]bool) string {
	if s == nil {
		return "{}"
	}
	switch s.kind {
	case stringShape:
		return "String"
	case boolShape:
		return "Bool"
	case longShape:
		return "Long"
	case decimalShape:
		return "decimal"
	case setShape:
		return "Set<" + s.items.cedarType(path, unknown) + ">"
	case recordShape:
		return s.recordType(path, unknown)
	}
	return "{}"
}

func (s *shape) recordType(path string, unknown map[string]bool) string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		f := s.fields[name]
		at := strings.TrimPrefix(path+"."+name, ".")
		if !f.hasType() {
			if unknown != nil {
				unknown[at] = true
			}
			continue
		}
		optional := "?"
		if s.required[name] {
			optional = ""
		}
		fields = append(fields, quoteCedar(name)+optional+": "+f.cedarType(at, unknown))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// hasType reports whether Cedar has a type for all values of the shape.
func (s *shape) hasType() bool {
	if s == nil || s.kind == anyShape {
		return false
	}
	return s.kind != setShape || s.items.hasType()
}

// cedarIdentifier replaces all characters except letters, digits and underscores.
func cedarIdentifier(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
}

// quoteCedar returns a Cedar string literal.
func quoteCedar(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < 0x20 || r == 0x7f || r > 0x7e:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
