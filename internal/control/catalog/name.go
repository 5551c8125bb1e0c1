package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxKept     = 256 // maximum bytes of an identifier that stays unchanged
	maxSafe     = 96  // maximum bytes of a respelled safe name, before a suffix
	maxComposed = 64  // maximum bytes; the limit of most clients for tool names
	composedCut = maxComposed - 9
)

// safeNames assigns a unique JavaScript identifier to each of the names, which are sorted and
// distinct.
//
// A name that is such an identifier is kept. Any other name is respelled as one (spell). If two
// respelled names collide, or one equals an existing identifier, each gets a suffix derived from
// its own exact name. So the result depends only on the set of names, never on their order of
// arrival. A name changes only when one that collides with it comes or goes. And an identifier
// never silently refers to a different tool, except to the tool of which it is the exact name.
func safeNames(names []string, reserved *lazily.Set) []string {
	out := make([]string, len(names))
	taken := make(map[string]int, len(names)) // number of names with this spelling; exact names count double
	for i, n := range names {
		out[i] = spell(n, reserved)
		if taken[out[i]]++; out[i] == n {
			taken[out[i]]++
		}
	}
	for i, n := range names {
		if out[i] == n || taken[out[i]] == 1 {
			continue
		}
		out[i] = addSuffix(out[i], n, func(s string) bool { return taken[s] > 0 || reserved.Has(s) })
		taken[out[i]] = 1
	}
	return out
}

// Namespaces returns the namespace in which programs see each of the named upstreams, a unique
// identifier per name. names must be distinct.
func Namespaces(names []string) map[string]string {
	sorted := slices.Sorted(slices.Values(names))
	out := make(map[string]string, len(sorted))
	for i, space := range safeNames(sorted, reservedNamespaces) {
		out[sorted[i]] = space
	}
	return out
}

// addSuffix returns base with an unused suffix derived from exact: six digits, or eight if those
// are taken, and so on. It always finds one, as it can produce digests without end.
func addSuffix(base, exact string, taken func(string) bool) string {
	for {
		sum := sha256.Sum256([]byte(exact))
		digest := hex.EncodeToString(sum[:])
		for n := 6; n <= 8; n += 2 {
			if s := base + "_" + digest[:n]; !taken(s) {
				return s
			}
		}
		exact = digest
	}
}

// spell returns name as a JavaScript identifier. Letters and digits of any script are kept (in
// Unicode's composed form NFC), all other characters become '_'. A reserved identifier gets the
// suffix '_'. Two names may get the same spelling.
func spell(name string, reserved *lazily.Set) string {
	if len(name) <= maxKept && !reserved.Has(name) && isIdentifier(name) {
		return name
	}
	if len(name) > maxKept {
		name = name[:maxKept] // a letter that is cut in the middle becomes '_'
	}
	var b strings.Builder
	for _, r := range norm.NFC.String(strings.ToValidUTF8(name, "_")) {
		switch {
		case b.Len() >= maxSafe:
		case isIDStart(r) || b.Len() > 0 && isIDPart(r):
			b.WriteRune(r)
		case b.Len() == 0 && isIDPart(r):
			b.WriteByte('_')
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	s := norm.NFC.String(b.String())
	if s == "" {
		s = "_"
	}
	for reserved.Has(s) {
		s += "_"
	}
	return s
}

// isIdentifier reports whether s is an identifier that needs no respelling.
func isIdentifier(s string) bool {
	for i, r := range s {
		if !isIDPart(r) || i == 0 && !isIDStart(r) {
			return false
		}
	}
	return s != "" && norm.NFC.IsNormalString(s)
}

// isIDStart reports whether r may start an identifier (ECMA-262, IdentifierStartChar). It only
// accepts letters on which engine, bundler and type checker agree, so none outside the basic plane.
func isIDStart(r rune) bool {
	if r < 0x80 {
		return r == '$' || r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	return r <= 0xffff && r != 0x2e2f && (unicode.IsLetter(r) || unicode.Is(unicode.Nl, r))
}

// isIDPart reports whether r may continue an identifier (ECMA-262, IdentifierPartChar, without the
// joiners, which are invisible).
func isIDPart(r rune) bool {
	if r < 0x80 {
		return isIDStart(r) || '0' <= r && r <= '9'
	}
	return isIDStart(r) || r <= 0xffff && unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd)
}

// composedNames returns the composed names of all tools of upstreams, in order: "<upstream>_<tool>"
// with all characters except [A-Za-z0-9_-] replaced by '_', and truncated if necessary. Truncated
// or colliding names get a suffix derived from the exact names. Biplane's own tools have their bare
// names. If unprefixed is set, so does every tool whose name is unique.
func composedNames(all []*upstream, unprefixed bool) []string {
	bare := map[string]int{} // number of tools that want a bare name; Biplane's own count double
	var count int
	for _, u := range all {
		count += len(u.block.tools)
		for _, n := range u.block.spelled {
			if u.name == tool.Own {
				bare[n] += 2
			} else if unprefixed && n != "" && len(n) <= maxComposed {
				bare[n]++
			}
		}
	}
	out := make([]string, 0, count)
	owner := make([]*upstream, 0, count)
	exact := make([]string, 0, count)
	taken := make(map[string]int, count)
	for _, u := range all {
		prefix := composedSpelling(u.name) + "_"
		for i, name := range u.block.spelled {
			if u.name != tool.Own && bare[name] != 1 {
				name = prefix + name
			}
			out, owner, exact = append(out, name), append(owner, u), append(exact, u.block.tools[i].Name)
			taken[name]++
		}
	}
	for i, name := range out {
		if owner[i].name == tool.Own || len(name) <= maxComposed && taken[name] == 1 {
			continue
		}
		out[i] = addSuffix(name[:min(len(name), composedCut)],
			owner[i].name+"\x00"+exact[i], func(s string) bool { return taken[s] > 0 })
		taken[out[i]]++
	}
	return out
}

func composedSpelling(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r < 0x80 && r != '$' && isIDPart(r) {
			return r
		}
		return '_'
	}, s)
}

const (
	// keywords are the keywords of ECMA-262 (12.7.2), those added by strict mode, modules and
	// TypeScript, and names that can't be redeclared.
	keywords = `await break case catch class const continue debugger default delete do else enum export extends false
		finally for function if implements import in instanceof interface let new null package private protected public
		return static super switch this throw true try typeof var void while with yield
		arguments eval undefined NaN Infinity`
	// inherited are the names that every object has, or that the language calls implicitly.
	inherited = `__proto__ __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ constructor prototype
		hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf toJSON then`
	// modular are names that generated modules use or that compilers reserve in them.
	modular = `callTool Promise Object require exports module`
	// globals are those of ECMA-262 and of Biplane's runtime, and names that code uses to detect
	// its environment.
	globals = `AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array Boolean DataView Date Error
		EvalError FinalizationRegistry Float16Array Float32Array Float64Array Function Int16Array Int32Array Int8Array
		Intl Iterator AsyncIterator JSON Map Math Number Object Promise Proxy RangeError ReferenceError Reflect RegExp
		Set SharedArrayBuffer String Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array
		Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly DisposableStack AsyncDisposableStack SuppressedError
		decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape globalThis isFinite isNaN
		parseFloat parseInt
		tools callTool search emit console ToolError readResult URL URLSearchParams TextEncoder TextDecoder
		structuredClone setTimeout clearTimeout setInterval clearInterval setImmediate clearImmediate queueMicrotask
		atob btoa crypto performance AbortController AbortSignal Event EventTarget DOMException Blob Headers
		window self global process Buffer Deno Bun require module exports main run`
)

// The names that are reserved for namespaces and for members.
var (
	reservedNamespaces = lazily.Words(keywords, inherited, globals)
	reservedMembers    = lazily.Words(keywords, inherited, modular)
)
