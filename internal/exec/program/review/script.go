package review

import (
	"github.com/grafana/sobek/ast"
	js "github.com/grafana/sobek/token"
)

// A converter converts the JavaScript syntax tree to nodes.
type converter struct{}

func (c converter) convertStatements(list []ast.Statement) []*node {
	out := make([]*node, 0, len(list))
	for _, st := range list { // functions are known before the statements around them
		if f, ok := st.(*ast.FunctionDeclaration); ok {
			out = append(out, c.convertStatement(f))
		}
	}
	for _, st := range list {
		if _, ok := st.(*ast.FunctionDeclaration); !ok {
			out = append(out, c.convertStatement(st))
		}
	}
	return out
}

func (c converter) convertBlock(list ...ast.Statement) *node {
	return newNodeAt(blockNode, 0, "{", c.convertStatements(list)...)
}

func (c converter) convertOptional(st ast.Statement) *node {
	if st == nil {
		return newNodeAt(blockNode, 0, "")
	}
	return c.convertStatement(st)
}

func (c converter) convertStatement(st ast.Statement) *node {
	switch st := st.(type) {
	case *ast.BlockStatement:
		return c.convertBlock(st.List...)
	case *ast.ExpressionStatement:
		return c.convertExpression(st.Expression)
	case *ast.ReturnStatement:
		if st.Argument == nil {
			return newNodeAt(returnNode, placeOf(st), "")
		}
		return newNodeAt(returnNode, placeOf(st), "", c.convertExpression(st.Argument))
	case *ast.ThrowStatement:
		return newNodeAt(exitNode, placeOf(st), "", c.convertExpression(st.Argument))
	case *ast.BranchStatement:
		return newNodeAt(exitNode, placeOf(st), "")
	case *ast.LabelledStatement:
		return c.convertStatement(st.Statement)
	case *ast.IfStatement:
		return newNodeAt(ifNode, placeOf(st), "", c.convertExpression(st.Test), c.convertOptional(st.Consequent),
			c.convertOptional(st.Alternate))
	case *ast.VariableStatement:
		return newNodeAt(blockNode, 0, "", c.convertBindings(st.List)...)
	case *ast.LexicalDeclaration:
		return newNodeAt(blockNode, 0, "", c.convertBindings(st.List)...)
	case *ast.FunctionDeclaration:
		f := c.convertFunction(st, st.Function.ParameterList, st.Function.Body)
		f.text = st.Function.Name.Name.String()
		return newNodeAt(assignNode, f.at, "let", newNodeAt(nameNode, f.at, f.text), f)
	case *ast.ClassDeclaration:
		return newNodeAt(assignNode, placeOf(st), "let",
			newNodeAt(nameNode, placeOf(st), st.Class.Name.Name.String()), c.convertClass(st.Class))
	}
	return c.convertCompound(st)
}

func (c converter) convertCompound(st ast.Statement) *node {
	at := placeOf(st)
	switch st := st.(type) {
	case *ast.TryStatement:
		out := newNodeAt(blockNode, at, "{", c.convertStatement(st.Body))
		if st.Catch != nil {
			out.kids = append(out.kids, c.convertStatement(st.Catch.Body))
		}
		if st.Finally != nil {
			out.kids = append(out.kids, c.convertStatement(st.Finally))
		}
		return out
	case *ast.SwitchStatement:
		out := newNodeAt(blockNode, at, "{", c.convertExpression(st.Discriminant))
		for _, k := range st.Body {
			out.kids = append(out.kids, newNodeAt(ifNode, at, "", c.convertExpression(k.Test),
				newNodeAt(blockNode, at, "", c.convertStatements(k.Consequent)...), newNodeAt(blockNode, at, "")))
		}
		return out
	case *ast.WhileStatement:
		return c.convertLoop(at, nil, c.convertExpression(st.Test), st.Body)
	case *ast.DoWhileStatement:
		return c.convertLoop(at, nil, c.convertExpression(st.Test), st.Body)
	case *ast.WithStatement:
		return c.convertLoop(at, nil, c.convertExpression(st.Object), st.Body)
	case *ast.ForStatement:
		head := newNodeAt(blockNode, at, "{")
		switch i := st.Initializer.(type) {
		case *ast.ForLoopInitializerExpression:
			head.kids = append(head.kids, c.convertExpression(i.Expression))
		case *ast.ForLoopInitializerVarDeclList:
			head.kids = append(head.kids, c.convertBindings(i.List)...)
		case *ast.ForLoopInitializerLexicalDecl:
			head.kids = append(head.kids, c.convertBindings(i.LexicalDeclaration.List)...)
		}
		test := newNodeAt(plainNode, at, "", c.convertExpression(st.Test), c.convertExpression(st.Update))
		head.kids = append(head.kids, c.convertLoop(at, nil, test, st.Body))
		return head
	case *ast.ForInStatement:
		return c.convertLoop(at, c.convertInto(st.Into), c.convertExpression(st.Source), st.Body)
	case *ast.ForOfStatement:
		return c.convertLoop(at, c.convertInto(st.Into), c.convertExpression(st.Source), st.Body)
	}
	return newNodeAt(blockNode, at, "")
}

func (c converter) convertLoop(at int, target, source *node, body ast.Statement) *node {
	return newNodeAt(loopNode, at, "", target, source, c.convertOptional(body))
}

func (c converter) convertInto(i ast.ForInto) *node {
	switch i := i.(type) {
	case *ast.ForDeclaration:
		return c.convertExpression(i.Target)
	case *ast.ForIntoVar:
		return c.convertExpression(i.Binding.Target)
	case *ast.ForIntoExpression:
		return c.convertExpression(i.Expression)
	}
	return nil
}

func (c converter) convertBindings(list []*ast.Binding) (out []*node) {
	for _, b := range list {
		target := c.convertExpression(b.Target)
		out = append(out, newNodeAt(assignNode, target.at, "let", target, c.convertExpression(b.Initializer)))
	}
	return out
}

// convertTarget converts a target that may have a default.
func (c converter) convertTarget(e ast.Expression, initial ast.Expression) *node {
	target := c.convertExpression(e)
	if initial == nil {
		return target
	}
	return newNodeAt(assignNode, target.at, "=", target, c.convertExpression(initial))
}

func (c converter) convertFunction(n ast.Node, params *ast.ParameterList, body ast.ConciseBody) *node {
	f := newNodeAt(funcNode, placeOf(n), "")
	for _, p := range params.List {
		f.params = append(f.params, c.convertTarget(p.Target, p.Initializer))
	}
	if params.Rest != nil {
		f.params = append(f.params, newNodeAt(spreadNode, f.at, "", c.convertExpression(params.Rest)))
	}
	switch b := body.(type) {
	case *ast.BlockStatement:
		if b != nil {
			f.body = newNodeAt(blockNode, f.at, "", c.convertStatements(b.List)...)
		}
	case *ast.ExpressionBody:
		f.body = newNodeAt(returnNode, placeOf(b.Expression), "", c.convertExpression(b.Expression))
	}
	if f.body == nil {
		f.body = newNodeAt(blockNode, f.at, "")
	}
	return f
}

func (c converter) convertClass(k *ast.ClassLiteral) *node {
	out := newNodeAt(objectNode, int(k.Class)-1, "")
	add := func(key ast.Expression, v *node) {
		name := ""
		if s, ok := key.(*ast.StringLiteral); ok {
			name = s.Value.String()
		}
		out.keys, out.kids = append(out.keys, name), append(out.kids, v)
	}
	for _, el := range k.Body {
		switch el := el.(type) {
		case *ast.FieldDefinition:
			add(el.Key, c.convertExpression(el.Initializer))
		case *ast.MethodDefinition:
			add(el.Key, c.convertFunction(el.Body, el.Body.ParameterList, el.Body.Body))
		case *ast.ClassStaticBlock:
			add(nil, c.convertStatement(el.Block))
		}
	}
	return out
}

// placeOf returns the offset of a node.
func placeOf(n ast.Node) int { return int(n.Idx0()) - 1 }

func (c converter) convertAll(list []ast.Expression) []*node {
	out := make([]*node, 0, len(list))
	for _, e := range list {
		out = append(out, c.convertExpression(e))
	}
	return out
}

// convertExpression converts an expression, which may be nil.
func (c converter) convertExpression(e ast.Expression) *node {
	switch e := e.(type) {
	case nil:
		return newNodeAt(plainNode, 0, "")
	case *ast.Identifier:
		if e == nil {
			return newNodeAt(plainNode, 0, "")
		}
		return newNodeAt(nameNode, placeOf(e), e.Name.String())
	case *ast.StringLiteral:
		return newNodeAt(textNode, placeOf(e), e.Value.String())
	case *ast.NumberLiteral:
		return newNodeAt(numberNode, placeOf(e), e.Literal)
	case *ast.BooleanLiteral:
		return newNodeAt(numberNode, placeOf(e), e.Literal)
	case *ast.RegExpLiteral:
		return newNodeAt(regexNode, placeOf(e), e.Pattern)
	case *ast.DotExpression:
		return newNodeAt(memberNode, placeOf(e), e.Identifier.Name.String(), c.convertExpression(e.Left))
	case *ast.PrivateDotExpression:
		return newNodeAt(memberNode, placeOf(e), e.Identifier.Name.String(), c.convertExpression(e.Left))
	case *ast.BracketExpression:
		if key, ok := e.Member.(*ast.StringLiteral); ok {
			return newNodeAt(memberNode, placeOf(e), key.Value.String(), c.convertExpression(e.Left))
		}
		return newNodeAt(indexNode, placeOf(e), "", c.convertExpression(e.Left), c.convertExpression(e.Member))
	case *ast.OptionalChain:
		return c.convertExpression(e.Expression)
	case *ast.Optional:
		return c.convertExpression(e.Expression)
	case *ast.AwaitExpression:
		return c.convertExpression(e.Argument)
	case *ast.YieldExpression:
		return c.convertExpression(e.Argument)
	case *ast.ArrowFunctionLiteral:
		return c.convertFunction(e, e.ParameterList, e.Body)
	case *ast.FunctionLiteral:
		return c.convertFunction(e, e.ParameterList, e.Body)
	case *ast.ClassLiteral:
		return c.convertClass(e)
	case *ast.SpreadElement:
		return newNodeAt(spreadNode, placeOf(e), "", c.convertExpression(e.Expression))
	}
	return c.convertOperation(e)
}

func (c converter) convertOperation(e ast.Expression) *node {
	at := 0
	if e, ok := e.(*ast.Binding); ok {
		return c.convertTarget(e.Target, e.Initializer)
	}
	switch e := e.(type) {
	case *ast.CallExpression:
		at = placeOf(e)
		out := newNodeAt(callNode, at, "", c.convertExpression(e.Callee))
		out.kids = append(out.kids, c.convertAll(e.ArgumentList)...)
		return out
	case *ast.NewExpression:
		out := newNodeAt(newNode, placeOf(e), "", c.convertExpression(e.Callee))
		out.kids = append(out.kids, c.convertAll(e.ArgumentList)...)
		return out
	case *ast.TemplateLiteral:
		return c.convertTemplate(e)
	case *ast.BinaryExpression:
		return c.convertBinary(e)
	case *ast.UnaryExpression:
		k := plainNode
		if e.Operator == js.NOT {
			k = notNode
		}
		return newNodeAt(k, placeOf(e), e.Operator.String(), c.convertExpression(e.Operand))
	case *ast.ConditionalExpression:
		return newNodeAt(choiceNode, placeOf(e), "?", c.convertExpression(e.Test), c.convertExpression(e.Consequent),
			c.convertExpression(e.Alternate))
	case *ast.SequenceExpression:
		return newNodeAt(blockNode, at, "", c.convertAll(e.Sequence)...)
	case *ast.AssignExpression:
		op := "="
		if e.Operator == js.PLUS {
			op = "+="
		}
		return newNodeAt(assignNode, placeOf(e), op, c.convertExpression(e.Left), c.convertExpression(e.Right))
	case *ast.ArrayLiteral:
		return newNodeAt(listNode, placeOf(e), "", c.convertAll(e.Value)...)
	case *ast.ArrayPattern:
		out := newNodeAt(listNode, placeOf(e), "", c.convertAll(e.Elements)...)
		if e.Rest != nil {
			out.kids = append(out.kids, newNodeAt(spreadNode, out.at, "", c.convertExpression(e.Rest)))
		}
		return out
	case *ast.ObjectLiteral:
		return c.convertObject(placeOf(e), e.Value, nil)
	case *ast.ObjectPattern:
		return c.convertObject(placeOf(e), e.Properties, e.Rest)
	}
	return newNodeAt(plainNode, at, "")
}

func (c converter) convertTemplate(e *ast.TemplateLiteral) *node {
	at := placeOf(e)
	if e.Tag != nil { // its function receives the values as separate arguments
		tag := newNodeAt(callNode, at, "tag", c.convertExpression(e.Tag))
		tag.kids = append(tag.kids, c.convertAll(e.Expressions)...)
		return tag
	}
	out := newNodeAt(joinNode, at, "")
	for i, part := range e.Elements {
		if s := part.Parsed.String(); s != "" {
			out.kids = append(out.kids, newNodeAt(textNode, at, s))
		}
		if i < len(e.Expressions) {
			out.kids = append(out.kids, c.convertExpression(e.Expressions[i]))
		}
	}
	if len(out.kids) == 1 && out.kids[0].kind == textNode {
		return out.kids[0]
	}
	return out
}

func (c converter) convertBinary(e *ast.BinaryExpression) *node {
	at := placeOf(e)
	k := plainNode
	switch e.Operator {
	case js.PLUS:
		k = joinNode
	case js.LOGICAL_OR, js.COALESCE:
		k = choiceNode
	case js.LOGICAL_AND:
		k = andNode
	case js.EQUAL, js.STRICT_EQUAL, js.NOT_EQUAL, js.STRICT_NOT_EQUAL, js.IN:
		k = testNode
	}
	op := e.Operator.String()
	if k == choiceNode {
		op = "||"
	}
	return newNodeAt(k, at, op, c.convertExpression(e.Left), c.convertExpression(e.Right))
}

func (c converter) convertObject(at int, list []ast.Property, rest ast.Expression) *node {
	out := newNodeAt(objectNode, at, "")
	add := func(key string, v *node) { out.keys, out.kids = append(out.keys, key), append(out.kids, v) }
	for _, p := range list {
		switch p := p.(type) {
		case *ast.PropertyShort:
			name := p.Name
			add(name.Name.String(), c.convertTarget(&name, p.Initializer))
		case *ast.PropertyKeyed:
			key, ok := p.Key.(*ast.StringLiteral)
			switch {
			case ok:
				add(key.Value.String(), c.convertExpression(p.Value))
			default:
				add("", c.convertExpression(p.Value))
			}
		case *ast.SpreadElement:
			add("...", c.convertExpression(p.Expression))
		}
	}
	if rest != nil {
		add("...", c.convertExpression(rest))
	}
	return out
}
