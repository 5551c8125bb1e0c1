package usage

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A kind is which of the Counts' tokens a job is about.
type kind int

const (
	written   kind = iota // by the model
	unwritten             // by a program
	read
	kept
)

func kindOf(inside, result bool) kind {
	switch {
	case inside && result:
		return kept
	case inside:
		return unwritten
	case result:
		return read
	}
	return written
}

// tokens is where c has them.
func (c *Counts) tokens(k kind) *int64 {
	return [...]*int64{&c.Written, &c.Unwritten, &c.Read, &c.Kept}[k]
}

// A job is something whose tokens are to be counted.
type job struct {
	slot
	kind
	arguments json.RawMessage
	content   *tool.Result // instead
}

func (j *job) size() int {
	if j.content != nil {
		return len(j.content.Raw)
	}
	return len(j.arguments)
}

// Counting a megabyte takes a third of a second. So what is counted has a budget, which is enough for what agents do and
// far less than a processor; what is over it is estimated from what was counted of the same tool.
const (
	sample     = 64 << 10  // bytes of one text that are counted: of a larger one this much, spread over it
	burst      = 2 << 20   // bytes that may be counted at once,
	pace       = 128 << 10 // and in a second from then on
	maxContent = 8 << 20   // bytes of a result that is looked at
	maxHeld    = 32 << 20  // bytes of all that waits to be counted
	maxJobs    = 20_000
	maxRatios  = 4096 // tools of which it is known how many tokens are in a byte
)

// work is what is to be counted. Meter.mu guards it.
type work struct {
	jobs   []job
	held   int       // bytes
	budget float64   // bytes
	since  time.Time // when it was last added to
	ratios map[source]*ratio
	wake   chan struct{}
}

// A source is what has texts of one sort: the results of a tool, or its arguments.
type source struct {
	upstream, tool string
	results        bool
}

func (j *job) source() source { return source{j.Upstream, j.Tool, j.kind == read || j.kind == kept} }

// A ratio is how many tokens were in how many bytes.
type ratio struct{ tokens, bytes float64 }

func newWork(now time.Time) work {
	return work{budget: burst, since: now, ratios: map[source]*ratio{}, wake: make(chan struct{}, 1)}
}

// add takes a job; where it is over the budget it gives false, and keeps nothing of it.
func (w *work) add(j job, now time.Time) bool {
	n := j.size()
	w.budget = min(burst, w.budget+max(0, now.Sub(w.since).Seconds())*pace)
	w.since = now
	cost := float64(min(n, sample) + 64) // a job is not for nothing, however small its text
	if n > maxContent || w.held+n > maxHeld || len(w.jobs) >= maxJobs || w.budget < cost {
		return false
	}
	w.budget -= cost
	w.held += n
	w.jobs = append(w.jobs, j)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return true
}

// aFew are the tokens in a byte of JSON, before any was counted.
const aFew = 0.27

// estimate gives about how many tokens are in so many bytes of a tool.
func (w *work) estimate(j *job, bytes int) int {
	per := aFew
	if r := w.ratios[j.source()]; r != nil && r.bytes > 0 {
		per = r.tokens / r.bytes
	}
	return int(per * float64(bytes))
}

// learned notes how many tokens were in so many bytes of a tool.
func (w *work) learned(j *job, n, bytes int) {
	k := j.source()
	if w.ratios[k] == nil {
		if len(w.ratios) >= maxRatios {
			return
		}
		w.ratios[k] = &ratio{}
	}
	w.ratios[k].tokens += float64(n)
	w.ratios[k].bytes += float64(bytes)
}

// count counts the tokens of all jobs that there are, until ctx is done: from then on they are estimated. m.writing is
// held.
func (m *Meter) count(ctx context.Context) {
	for {
		m.mu.Lock()
		jobs := m.work.jobs
		m.work.jobs, m.work.held = nil, 0
		m.mu.Unlock()
		if len(jobs) == 0 {
			return
		}
		for i := range jobs {
			m.counted(ctx, jobs[i])
			jobs[i] = job{}
		}
	}
}

// counted counts the tokens of one job.
func (m *Meter) counted(ctx context.Context, j job) {
	n, exact, err := 0, false, context.Cause(ctx)
	if err == nil {
		n, exact, err = m.tokensOf(&j)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counts[j.slot]
	if c == nil {
		c = &Counts{}
		m.counts[j.slot] = c
	}
	if err != nil {
		n, exact = m.work.estimate(&j, j.size()), false
	} else {
		m.work.learned(&j, n, j.size())
	}
	c.tell(j.kind, n, exact)
}

// tell adds tokens.
func (c *Counts) tell(k kind, n int, exact bool) {
	*c.tokens(k) += int64(n)
	if !exact {
		c.Estimated += int64(n)
	}
}

// tokensOf counts the tokens of what a model reads or writes of a job: of a result its texts, or where there are none the
// structured content; of arguments all.
func (m *Meter) tokensOf(j *job) (n int, exact bool, err error) {
	if j.content == nil {
		return m.cfg.Tokens.Sample(string(j.arguments), sample)
	}
	var texts strings.Builder // counted together: many small ones cost no more than a large one
	for _, raw := range j.content.Content {
		var b tool.TextBlock
		if json.Unmarshal(raw, &b) == nil && b.Type == "text" {
			texts.WriteString(b.Text)
		}
	}
	if texts.Len() == 0 {
		texts.Write(j.content.Structured)
	}
	return m.cfg.Tokens.Sample(texts.String(), sample)
}
