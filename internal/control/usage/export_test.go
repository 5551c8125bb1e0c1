package usage

// Leave sets the remaining budget for counting in bytes.
func (m *Meter) Leave(bytes int) { m.tally.work.budget = float64(bytes) }
