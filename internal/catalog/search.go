package catalog

type docs struct{}

// Search gives the tools that fit the query best.
func (v *View) Search(query string, limit int) []Hit { return nil }
