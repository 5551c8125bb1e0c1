package review

// A kind is the kind of a node.
type kind uint8

const (
	plainNode         kind = iota // a value that contains nothing of its parts: a comparison, arithmetic
	nameNode                      // text
	textNode                      // a string constant: text
	numberNode                    // text
	regexNode                     // text is the pattern
	memberNode                    // kids[0].text
	indexNode                     // kids[0][kids[1]]
	callNode                      // kids[0](kids[1:]); keys are the names of arguments, "" for a position
	newNode                       // like callNode
	joinNode                      // a text composed of kids: a concatenation, a template, an f-string
	listNode                      // kids
	objectNode                    // keys and kids; the key is "..." for a spread, and "" for a computed one
	spreadNode                    // ...kids[0]
	choiceNode                    // one of kids: a ? b : c, a || b
	notNode                       // !kids[0]
	testNode                      // kids[0] text kids[1], a comparison
	andNode                       // kids[0] && kids[1]
	assignNode                    // kids[0] text kids[1]; text is "=", "+=" or, for a declaration, "let"
	funcNode                      // params and body; text is the name, or ""
	comprehensionNode             // kids[0] for clauses, each kids[i] in kids[i+1]; body is the condition
	blockNode                     // kids; own scope if text is "{"
	ifNode                        // if kids[0] kids[1] else kids[2]
	loopNode                      // for kids[0] of kids[1]: kids[2]
	returnNode                    // kids[0], which may be missing
	exitNode                      // throw, break, continue
	importNode                    // text is the module; the value of an import
	outerNode                     // the names in keys belong to an outer scope
)

// A node is a part of a program, the same for all languages.
type node struct {
	kind   kind
	at     int // offset in the code
	text   string
	kids   []*node
	keys   []string
	params []*node // targets, for funcNode
	body   *node

	awaited bool // of Python: await stands before it
	index   bool // of Python: a memberNode written as kids[0]["text"]

	scope  *scope // of funcNode and blockNode, kept between passes
	called bool   // a funcNode whose calls are known
	result *value // what a funcNode returns
}

func newNodeAt(k kind, at int, text string, kids ...*node) *node {
	return &node{kind: k, at: at, text: text, kids: kids}
}
