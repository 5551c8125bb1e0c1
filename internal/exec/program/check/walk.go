package check

import (
	"github.com/grafana/sobek/ast"
	js "github.com/grafana/sobek/token"
)

// walkStatements walks the statements of a block in its own scope.
func (c *checker) walkStatements(list []ast.Statement, s *scope) {
	s = newScope(s)
	s.declare(list)
	for _, st := range list {
		c.walkStatement(st, s)
	}
}

func (c *checker) walkStatement(st ast.Statement, s *scope) {
	switch st := st.(type) {
	case *ast.BlockStatement:
		c.walkStatements(st.List, s)
	case *ast.ExpressionStatement:
		c.walkExpression(st.Expression, s)
	case *ast.ReturnStatement:
		c.walkExpression(st.Argument, s)
	case *ast.ThrowStatement:
		c.walkExpression(st.Argument, s)
	case *ast.LabelledStatement:
		c.walkStatement(st.Statement, s)
	case *ast.IfStatement:
		c.checkCondition(st.Test, s)
		c.walkTest(st.Test, s)
		c.walkOptional(st.Consequent, s)
		c.walkOptional(st.Alternate, s)
	case *ast.TryStatement:
		c.walkTry(st, s)
	case *ast.SwitchStatement:
		c.walkExpression(st.Discriminant, s)
		s = newScope(s)
		for _, k := range st.Body {
			s.declare(k.Consequent)
		}
		for _, k := range st.Body {
			c.walkExpression(k.Test, s)
			for _, x := range k.Consequent {
				c.walkStatement(x, s)
			}
		}
	case *ast.VariableStatement:
		c.walkBindings(st.List, s)
	case *ast.LexicalDeclaration:
		c.walkBindings(st.List, s)
	case *ast.FunctionDeclaration:
		c.walkFunction(st.Function.ParameterList, st.Function.DeclarationList, nil, st.Function.Body, s,
			st.Function.Async && !st.Function.Generator)
	case *ast.ClassDeclaration:
		c.walkClass(st.Class, s)
	default:
		c.walkLoop(st, s)
	}
}

// walkOptional walks a statement that may be missing.
func (c *checker) walkOptional(st ast.Statement, s *scope) {
	if st != nil {
		c.walkStatements([]ast.Statement{st}, s)
	}
}

func (c *checker) walkLoop(st ast.Statement, s *scope) {
	switch st := st.(type) {
	case *ast.WhileStatement:
		c.checkCondition(st.Test, s)
		c.walkTest(st.Test, s)
		c.walkOptional(st.Body, s)
	case *ast.DoWhileStatement:
		c.checkCondition(st.Test, s)
		c.walkTest(st.Test, s)
		c.walkOptional(st.Body, s)
	case *ast.WithStatement: // the meaning of names in its body is only known at run time
		c.walkExpression(st.Object, s)
		c.dynamic = true
	case *ast.ForStatement:
		s = newScope(s)
		switch i := st.Initializer.(type) {
		case *ast.ForLoopInitializerExpression:
			c.walkExpression(i.Expression, s)
		case *ast.ForLoopInitializerVarDeclList:
			c.walkBindings(i.List, s)
		case *ast.ForLoopInitializerLexicalDecl:
			for _, b := range i.LexicalDeclaration.List {
				s.pattern(b.Target, nil, nil)
			}
			c.walkBindings(i.LexicalDeclaration.List, s)
		}
		c.walkTest(st.Test, s)
		c.walkExpression(st.Update, s)
		c.walkOptional(st.Body, s)
	case *ast.ForInStatement:
		c.walkExpression(st.Source, s)
		c.openResult(st.Source, s)
		c.walkOptional(st.Body, c.enterLoop(st.Into, nil, s))
	case *ast.ForOfStatement:
		c.checkAwaited(st.Source, s, "which can't be iterated")
		c.walkExpression(st.Source, s)
		c.walkOptional(st.Body, c.enterLoop(st.Into, st.Source, s))
	}
}

// enterLoop returns the scope of the body of for-in and for-of. array is what for-of iterates over,
// or nil.
func (c *checker) enterLoop(i ast.ForInto, array ast.Expression, s *scope) *scope {
	switch i := i.(type) {
	case *ast.ForDeclaration:
		outer := s
		s = newScope(s)
		if array == nil {
			s.pattern(i.Target, nil, nil)
			break
		}
		s.bindItems(i.Target, array, outer, !i.IsConst)
		if p, ok := c.itemOf(array, outer, 0); ok {
			c.readPattern(i.Target, p)
		}
	case *ast.ForIntoExpression:
		c.walkExpression(i.Expression, s)
	}
	return s
}

// walkTry walks a try statement. Errors that its catch may handle are not reported: a program may
// try a tool that it doesn't expect to exist.
func (c *checker) walkTry(st *ast.TryStatement, s *scope) {
	before := c.tolerant
	c.tolerant = c.tolerant || st.Catch != nil
	c.walkStatements(st.Body.List, s)
	c.tolerant = before
	if st.Catch != nil {
		in := newScope(s)
		if st.Catch.Parameter != nil {
			in.pattern(st.Catch.Parameter, nil, nil)
		}
		c.walkStatements(st.Catch.Body.List, in)
	}
	if st.Finally != nil {
		c.walkStatements(st.Finally.List, s)
	}
}

func (c *checker) walkBindings(list []*ast.Binding, s *scope) {
	for _, b := range list {
		switch b.Target.(type) {
		case *ast.ObjectPattern, *ast.ArrayPattern:
			if b.Initializer != nil {
				c.checkAwaited(b.Initializer, s, "which can't be destructured")
			}
		}
		c.walkTargets(b.Target, s)
		c.walkExpression(b.Initializer, s)
		c.bindResult(b, s)
	}
}

// walkTargets walks the defaults and computed keys of a binding target.
func (c *checker) walkTargets(e ast.Expression, s *scope) {
	switch e := e.(type) {
	case *ast.Identifier:
		c.recordMention(e, s)
	case *ast.Binding:
		c.walkTargets(e.Target, s)
		c.walkExpression(e.Initializer, s)
	case *ast.AssignExpression:
		c.walkTargets(e.Left, s)
		c.walkExpression(e.Right, s)
	case *ast.ObjectPattern:
		for _, p := range e.Properties {
			switch p := p.(type) {
			case *ast.PropertyShort:
				c.recordMention(&p.Name, s)
				c.walkExpression(p.Initializer, s)
			case *ast.PropertyKeyed:
				if p.Computed {
					c.walkExpression(p.Key, s)
				}
				c.walkTargets(p.Value, s)
			}
		}
	case *ast.ArrayPattern:
		for _, x := range e.Elements {
			if x != nil {
				c.walkTargets(x, s)
			}
		}
	}
}

func (c *checker) walkFunction(params *ast.ParameterList, vars []*ast.VariableDeclaration, name *ast.Identifier,
	body ast.ConciseBody, s *scope, async bool) {
	around := s
	s = s.function(params, vars, name)
	before, outer, guarded, chain := c.tolerant, c.async, c.reads.guarded, c.reads.chain
	c.reads.guarded, c.reads.chain = false, false
	test := c.bindCallback(params, s, around)
	c.async = false // await is not allowed in a parameter
	for _, p := range params.List {
		c.walkTargets(p, s)
	}
	c.async = async
	switch b := body.(type) {
	case *ast.BlockStatement:
		if b != nil {
			c.walkStatements(b.List, s)
		}
	case *ast.ExpressionBody:
		c.reads.guarded = test
		c.walkExpression(b.Expression, s)
	}
	c.tolerant, c.async, c.reads.guarded, c.reads.chain = before, outer, guarded, chain
}

func (c *checker) walkClass(k *ast.ClassLiteral, s *scope) {
	c.walkExpression(k.SuperClass, s)
	s = newScope(s)
	if k.Name != nil {
		s.add(k.Name.Name.String())
	}
	outer := c.async
	c.async = false // await is not allowed in a field or a static block
	defer func() { c.async = outer }()
	for _, el := range k.Body {
		switch el := el.(type) {
		case *ast.FieldDefinition:
			if el.Computed {
				c.walkExpression(el.Key, s)
			}
			c.walkExpression(el.Initializer, s)
		case *ast.MethodDefinition:
			if el.Computed {
				c.walkExpression(el.Key, s)
			}
			c.walkFunction(el.Body.ParameterList, el.Body.DeclarationList, nil, el.Body.Body, s, el.Body.Async &&
				!el.Body.Generator)
		case *ast.ClassStaticBlock:
			c.walkStatements(el.Block.List, s)
		}
	}
}

// walkExpression walks an expression, which may be nil.
func (c *checker) walkExpression(e ast.Expression, s *scope) {
	switch e := e.(type) {
	case nil:
	case *ast.Identifier:
		c.recordMention(e, s)
	case *ast.CallExpression:
		c.checkCall(e, s)
	case *ast.DotExpression:
		c.checkProperty(e.Left, e.Identifier.Name.String(), s)
		c.readField(e.Left, e.Identifier.Name.String(), int(e.Identifier.Idx0())-1, s)
		c.walkOperand(e.Left, s)
	case *ast.BracketExpression:
		c.checkProperty(e.Left, indexName(e.Member), s)
		if key, ok := e.Member.(*ast.StringLiteral); ok {
			c.readField(e.Left, key.Value.String(), int(key.Idx0())-1, s)
		}
		c.walkOperand(e.Left, s)
		c.walkExpression(e.Member, s)
	case *ast.OptionalChain:
		before := c.tolerant
		c.tolerant = true
		chain := c.reads.chain
		c.reads.chain = true
		c.walkTest(e.Expression, s)
		c.reads.chain = chain
		c.tolerant = before
	case *ast.Optional:
		c.walkExpression(e.Expression, s)
	case *ast.ArrowFunctionLiteral:
		c.walkFunction(e.ParameterList, e.DeclarationList, nil, e.Body, s, e.Async)
	case *ast.FunctionLiteral:
		c.walkFunction(e.ParameterList, e.DeclarationList, e.Name, e.Body, s, e.Async && !e.Generator)
	case *ast.ClassLiteral:
		c.walkClass(e, s)
	case *ast.AwaitExpression:
		c.walkExpression(e.Argument, s)
	case *ast.ConditionalExpression:
		c.checkCondition(e.Test, s)
		c.walkTest(e.Test, s)
		c.walkExpression(e.Consequent, s)
		c.walkExpression(e.Alternate, s)
	case *ast.TemplateLiteral:
		c.walkExpression(e.Tag, s)
		for _, x := range e.Expressions {
			if e.Tag == nil {
				c.checkAwaited(x, s, "which is no text")
			}
			c.walkExpression(x, s)
		}
	default:
		c.walkOperation(e, s)
	}
}

// indexName returns the name in x["name"], "0" for a number, and "" if it is unknown.
func indexName(e ast.Expression) string {
	if lit, ok := e.(*ast.StringLiteral); ok {
		return lit.Value.String()
	}
	if _, ok := e.(*ast.NumberLiteral); ok {
		return "0"
	}
	return "" // unknown
}

func (c *checker) walkOperation(e ast.Expression, s *scope) {
	switch e := e.(type) {
	case *ast.BinaryExpression:
		if needsValues(e.Operator) {
			c.checkAwaited(e.Left, s, "which is not a number")
			c.checkAwaited(e.Right, s, "which is not a number")
		}
		c.walkBinary(e, s)
	case *ast.UnaryExpression:
		switch e.Operator {
		case js.NOT:
			c.checkCondition(e.Operand, s)
			c.walkTest(e.Operand, s)
		case js.TYPEOF, js.DELETE:
			c.openResult(e.Operand, s)
			c.walkTest(e.Operand, s)
		default:
			c.walkExpression(e.Operand, s)
		}
	case *ast.AssignExpression:
		c.walkTest(e.Left, s)
		c.setResult(e.Left, s)
		c.walkExpression(e.Right, s)
		c.openResult(e.Right, s)
	case *ast.SequenceExpression:
		for _, x := range e.Sequence {
			c.walkExpression(x, s)
		}
	case *ast.ArrayLiteral:
		for _, x := range e.Value {
			if sp, ok := x.(*ast.SpreadElement); ok {
				c.checkAwaited(sp.Expression, s, "which can't be spread")
			}
			c.walkExpression(x, s)
		}
	case *ast.ObjectLiteral:
		c.walkObject(e, s)
	case *ast.ObjectPattern, *ast.ArrayPattern:
		c.walkTargets(e, s)
	case *ast.NewExpression:
		c.walkExpression(e.Callee, s)
		for _, x := range e.ArgumentList {
			c.walkExpression(x, s)
		}
	case *ast.PrivateDotExpression:
		c.walkExpression(e.Left, s)
	case *ast.SpreadElement:
		c.walkExpression(e.Expression, s)
	case *ast.YieldExpression:
		c.walkExpression(e.Argument, s)
	}
}

func (c *checker) walkObject(e *ast.ObjectLiteral, s *scope) {
	for _, p := range e.Value {
		switch p := p.(type) {
		case *ast.PropertyShort:
			c.recordMention(&p.Name, s)
		case *ast.PropertyKeyed:
			if p.Computed {
				c.walkExpression(p.Key, s)
			}
			c.walkExpression(p.Value, s)
		case *ast.SpreadElement:
			c.checkAwaited(p.Expression, s, "which can't be spread")
			c.walkExpression(p.Expression, s)
		}
	}
}

// needsValues reports whether a promise makes no sense for an operator. (&&, || and ?? are used for
// conditional calls.)
func needsValues(operator js.Token) bool {
	switch operator {
	case js.PLUS, js.MINUS, js.MULTIPLY, js.SLASH, js.REMAINDER, js.LESS, js.GREATER, js.LESS_OR_EQUAL,
		js.GREATER_OR_EQUAL:
		return true
	}
	return false
}
