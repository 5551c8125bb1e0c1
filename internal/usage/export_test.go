package usage

import "time"

// Leave leaves so many bytes of the budget for counting.
func (m *Meter) Leave(bytes int) { m.work.budget, m.work.since = float64(bytes), time.Now() }
