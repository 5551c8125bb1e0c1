package usage

// Leave leaves so many bytes of the budget for counting.
func (m *Meter) Leave(bytes int) { m.work.budget = float64(bytes) }
