package child

// A Protection is something that stands between a child and the rest of the host.
type Protection struct {
	Name      string `json:"name"` // "system call filter"
	Armed     bool   `json:"armed"`
	Detail    string `json:"detail,omitempty"`    // what it is, or why it isn't armed
	Separates bool   `json:"separates,omitempty"` // it alone keeps a child from the host's files or processes
}

// protections collect what was armed.
type protections []Protection

// add says how arming something went.
func (ps *protections) add(name, detail string, separates bool, err error) {
	p := Protection{Name: name, Armed: err == nil, Detail: detail, Separates: separates}
	if err != nil {
		p.Detail = err.Error()
	}
	*ps = append(*ps, p)
}
