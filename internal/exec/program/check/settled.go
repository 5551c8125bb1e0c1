package check

import "github.com/grafana/sobek/ast"

// itemOf returns the part of a tool's result that each item of an array certainly is.
func (rs *results) itemOf(array ast.Expression, s *scope, depth int) (p resultPath, ok bool) {
	if p, ok = rs.findSettledItem(array, s, -1, depth); ok {
		return p, true
	}
	p, ok = rs.resultOf(array, s, depth)
	return p.addStep(Item), ok
}

// findSettledItem returns what an item of a list of results certainly is: the one at an index, or
// any one if the index is negative. A list of results is what Promise.all resolves to.
func (rs *results) findSettledItem(list ast.Expression, s *scope, at, depth int) (p resultPath, ok bool) {
	calls, s := rs.findSettledCalls(list, s, depth)
	switch calls := calls.(type) {
	case *ast.ArrayLiteral:
		if at >= 0 && at < len(calls.Value) && !hasSpread(calls.Value[:at+1]) {
			return rs.resultOfAwait(calls.Value[at], s, depth+1)
		}
		if at >= 0 || len(calls.Value) == 0 || hasSpread(calls.Value) {
			return p, false
		}
		for i, x := range calls.Value {
			one, known := rs.resultOfAwait(x, s, depth+1)
			if !known || i > 0 && one.encodeKey(len(one.steps)) != p.encodeKey(len(p.steps)) {
				return resultPath{}, false
			}
			p = one
		}
		return p, true
	case *ast.CallExpression: // array.map(x => server.tool(...))
		callee, dotted := calls.Callee.(*ast.DotExpression)
		if !dotted || callee.Identifier.Name != "map" || len(calls.ArgumentList) != 1 {
			return p, false
		}
		if f, ok := calls.ArgumentList[0].(*ast.ArrowFunctionLiteral); ok {
			in := s.function(f.ParameterList, f.DeclarationList, nil)
			return rs.resultOfAwait(findReturnValue(f.Body), in, depth+1)
		}
	}
	return p, false
}

// findSettledCalls returns the argument of the Promise.all whose value an expression is, or nil.
func (rs *results) findSettledCalls(e ast.Expression, s *scope, depth int) (ast.Expression, *scope) {
	if depth > maxFollow {
		return nil, s
	}
	switch e := e.(type) {
	case *ast.Identifier:
		name := e.Name.String()
		if b := s.lookup(name); b != nil && b.init != nil && !b.item && len(b.keys) == 0 && !b.used &&
			!(b.loose && rs.assigned[name]) {
			return rs.findSettledCalls(b.init, b.scope, depth+1)
		}
	case *ast.AwaitExpression:
		call, ok := e.Argument.(*ast.CallExpression)
		if !ok || len(call.ArgumentList) != 1 {
			return nil, s
		}
		callee, ok := call.Callee.(*ast.DotExpression)
		if ok && callee.Identifier.Name == "all" && rs.meaning(callee.Left, s, depth+1).sense == promises {
			return call.ArgumentList[0], s
		}
	}
	return nil, s
}

// resultOfAwait returns the part of a tool's result that an expression is when it is awaited.
func (rs *results) resultOfAwait(e ast.Expression, s *scope, depth int) (p resultPath, ok bool) {
	if e == nil {
		return p, false
	}
	if m := rs.meaning(e, s, depth); m.sense == promise {
		return resultPath{tool: m.path()}, m.member != ""
	}
	return rs.resultOf(e, s, depth)
}

func hasSpread(list []ast.Expression) bool {
	for _, x := range list {
		if _, ok := x.(*ast.SpreadElement); ok || x == nil {
			return true
		}
	}
	return false
}

// findReturnValue returns the expression that a function returns, if it does nothing else.
func findReturnValue(body ast.ConciseBody) ast.Expression {
	switch b := body.(type) {
	case *ast.ExpressionBody:
		return b.Expression
	case *ast.BlockStatement:
		if len(b.List) == 1 {
			if st, ok := b.List[0].(*ast.ReturnStatement); ok {
				return st.Argument
			}
		}
	}
	return nil
}

// openResultList is like openResult, for all results of a list.
func (rs *results) openResultList(list ast.Expression, s *scope) {
	if calls, _ := rs.findSettledCalls(list, s, 0); calls != nil {
		n := 1
		if a, ok := calls.(*ast.ArrayLiteral); ok {
			n = len(a.Value)
		}
		for at := -1; at < n; at++ {
			if p, ok := rs.findSettledItem(list, s, at, 0); ok {
				rs.reads.open[p.encodeKey(len(p.steps))] = true
			}
		}
	}
}
