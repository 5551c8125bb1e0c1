package main

// findRecursive returns the functions that must count the call depth: members of call cycles in
// which no function lowers the guest's stack pointer. Other recursion ends with the guest's stack,
// at an address below zero. Such a cycle would continue until Go's stack is exhausted, which
// crashes the process. An indirect call may reach any function in the table, an imported one none.
func findRecursive(m *module, fs []*function) map[int]bool {
	g := graph{next: make([][]int, len(fs)+1), index: make([]int, len(fs)+1), low: make([]int, len(fs)+1),
		on: make([]bool, len(fs)+1), found: map[int]bool{}}
	table := len(fs) // the node for calls through the table
	member := func(f uint32) (int, bool) {
		i := int(f) - len(m.imports)
		return i, i >= 0 && !fs[i].framed
	}
	for _, f := range m.elems {
		if i, ok := member(f); ok {
			g.next[table] = append(g.next[table], i)
		}
	}
	for i, f := range fs {
		if f.framed {
			continue
		}
		for c := range f.calls {
			if k, ok := member(c); ok {
				g.next[i] = append(g.next[i], k)
			}
		}
		if f.indirect {
			g.next[i] = append(g.next[i], table)
		}
	}
	for v := range g.next {
		if g.index[v] == 0 {
			g.visitNode(v)
		}
	}
	delete(g.found, table)
	return g.found
}

// A graph finds its nodes on cycles, by Tarjan's strongly connected components.
type graph struct {
	next  [][]int
	index []int // order of the first visit, from 1
	low   []int
	on    []bool // on the stack
	stack []int
	count int
	found map[int]bool
}

func (g *graph) visitNode(v int) {
	g.count++
	g.index[v], g.low[v] = g.count, g.count
	g.stack = append(g.stack, v)
	g.on[v] = true
	self := false
	for _, w := range g.next[v] {
		switch {
		case w == v:
			self = true
		case g.index[w] == 0:
			g.visitNode(w)
			g.low[v] = min(g.low[v], g.low[w])
		case g.on[w]:
			g.low[v] = min(g.low[v], g.index[w])
		}
	}
	if g.low[v] != g.index[v] {
		return
	}
	for n := 0; ; n++ {
		w := g.stack[len(g.stack)-1]
		g.stack = g.stack[:len(g.stack)-1]
		g.on[w] = false
		if w != v || n > 0 || self {
			g.found[w] = true
		}
		if w == v {
			return
		}
	}
}

// findReachable returns the functions reachable from the kept exports, the table or the start
// function.
func findReachable(m *module, fs []*function) []bool {
	seen := make([]bool, len(fs))
	var todo []int
	add := func(f uint32) {
		if i := int(f) - len(m.imports); i >= 0 && !seen[i] {
			seen[i] = true
			todo = append(todo, i)
		}
	}
	for _, e := range m.exports {
		add(e.fn)
	}
	for _, f := range m.elems {
		add(f)
	}
	if m.start >= 0 {
		add(uint32(m.start))
	}
	for len(todo) > 0 {
		f := fs[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		for c := range f.calls {
			add(c)
		}
	}
	return seen
}
