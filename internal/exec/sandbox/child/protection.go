package child

// A Protection is a barrier between a child and the rest of the host.
type Protection struct {
	Name   string `json:"name"` // "system call filter"
	Armed  bool   `json:"armed"`
	Detail string `json:"detail,omitempty"` // description, or why it isn't armed
	// Separates is set if this protection alone keeps a child from the host's files or processes.
	Separates bool `json:"separates,omitempty"`
}

// protections collects the outcomes of arming.
type protections []Protection

// add records the outcome of arming a protection.
func (ps *protections) add(name, detail string, separates bool, err error) {
	p := Protection{Name: name, Armed: err == nil, Detail: detail, Separates: separates}
	if err != nil {
		p.Detail = err.Error()
	}
	*ps = append(*ps, p)
}
