// Package yamldoc reads YAML that others wrote. The size, depth and number of values of a text are
// limited, and tags are refused. The library panics on some texts: such a panic becomes an error.
package yamldoc

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/biplane-dev/biplane/internal/base/text"
)

// Limits of a text, far above what people write.
const (
	maxBytes  = 1 << 20
	maxDepth  = 100    // nested maps and lists
	maxColumn = 1000   // of a key in block style, where deeper values are further to the right
	maxTokens = 50_000 // parsing time grows faster than the number of tokens
)

// A Problem is a mistake in a text. Its message may have names of keys.
type Problem struct {
	Line, Column int // 1-based; 0: unknown
	Message      string
}

// asError returns an error with the line.
func (p *Problem) asError() error {
	if p.Line == 0 {
		return errors.New(p.Message)
	}
	return fmt.Errorf("line %d: %s", p.Line, p.Message)
}

// ParseDocument parses one document. It returns nil if there is none. Aliases stay as they are: the
// caller limits what they expand to.
func ParseDocument(source []byte) (_ ast.Node, problem *Problem) {
	defer catchPanic(&problem)
	return parseSource(source, true)
}

// DecodeDocument decodes one document without aliases into a value. The value stays as it is if
// there is no document.
func DecodeDocument(source []byte, to any) error { return decodeWith(source, to) }

// DecodeStrictly decodes as DecodeDocument does. Unknown keys are errors.
func DecodeStrictly(source []byte, to any) error { return decodeWith(source, to, yaml.Strict()) }

func decodeWith(source []byte, to any, options ...yaml.DecodeOption) error {
	if problem := decodeSafely(source, to, options); problem != nil {
		return problem.asError()
	}
	return nil
}

func decodeSafely(source []byte, to any, options []yaml.DecodeOption) (problem *Problem) {
	defer catchPanic(&problem)
	body, problem := parseSource(source, false)
	if body == nil || problem != nil {
		return problem
	}
	if err := yaml.NodeToValue(body, to, options...); err != nil {
		return convertError(err)
	}
	return nil
}

// catchPanic turns a panic of the library into an error.
func catchPanic(problem **Problem) {
	if recover() != nil {
		*problem = &Problem{Message: "it is not valid YAML: a value has another form than its place needs"}
	}
}

func parseSource(source []byte, aliases bool) (ast.Node, *Problem) {
	if len(source) > maxBytes {
		return nil, &Problem{Message: fmt.Sprintf("it has %s, at most %s are read", text.Size(len(source)),
			text.Size(maxBytes))}
	}
	tokens := lexer.Tokenize(string(source))
	if problem := checkTokens(tokens, aliases); problem != nil {
		return nil, problem
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, convertError(err)
	}
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case body != nil:
			return nil, problemAt(d.Body.GetToken(), "this begins a second document: only one is read")
		default:
			body = d.Body
		}
	}
	return body, nil
}

// checkTokens rejects what must not reach the parser: it is recursive, and stores the path of each
// value.
func checkTokens(tokens token.Tokens, aliases bool) *Problem {
	flow, line, marks := 0, 0, 0 // marks nest without a line of their own: "- - -"
	for _, t := range tokens {
		if t.Position.Line != line {
			line, marks = t.Position.Line, 0
		}
		switch t.Type {
		case token.TagType:
			return problemAt(t, "tags are not supported: remove "+text.Clip(t.Value, 40))
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			if !aliases {
				return problemAt(t, "aliases (&, *, <<) are not supported here: write the value twice")
			}
			if flow == 0 {
				marks++
			}
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType:
			if flow == 0 {
				marks++
			}
		}
		tooFar := flow == 0 && t.Type == token.MappingValueType && t.Position.Column > maxColumn
		if flow > maxDepth || marks > maxDepth || tooFar {
			return problemAt(t, "nested too deeply")
		}
	}
	if len(tokens) > maxTokens {
		return problemAt(tokens[maxTokens], "too many values")
	}
	return nil
}

func problemAt(t *token.Token, message string) *Problem {
	p := &Problem{Message: message}
	if t != nil && t.Position != nil {
		p.Line, p.Column = t.Position.Line, t.Position.Column
	}
	return p
}

// convertError converts an error of the library, which quotes the text after its first line.
func convertError(err error) *Problem {
	var e yaml.Error
	if errors.As(err, &e) {
		return problemAt(e.GetToken(), e.GetMessage())
	}
	return &Problem{Message: text.FirstLine(err.Error())}
}
