package program

// A Place is a place in a module that a program imports.
type Place struct {
	File   string // below the root: "skills/report.ts"
	Line   int    // from 1
	Column int    // in characters, from 1
	Frame  string // the lines around it
}

// InModule x
func (p *Program) InModule(stack string) (at Place, ok bool) { return Place{}, false }
