package usage

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A kind identifies the token count in Counts that a job adds to.
type kind int

const (
	written   kind = iota // by a model
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

// countOf returns the count of a kind.
func (c *Counts) countOf(k kind) *int64 {
	return [...]*int64{&c.Written, &c.Unwritten, &c.Read, &c.Kept}[k]
}

// A job is a text whose tokens will be counted.
type job struct {
	slot
	kind
	arguments json.RawMessage
	content   *tool.Result // instead of arguments
}

func (j *job) textSize() int {
	if j.content != nil {
		return len(j.content.Raw)
	}
	return len(j.arguments)
}

// Counting a megabyte needs a third of a second. So counting has a budget, which suffices for
// typical agents and uses only a fraction of a processor. Texts beyond it are estimated from
// earlier counts for the same tool.
const (
	sample     = 64 << 10  // bytes counted of a text: of a larger one this much, in samples
	burst      = 2 << 20   // bytes that can be counted at once,
	pace       = 128 << 10 // and per second after that
	maxContent = 8 << 20   // maximum bytes of a result to count
	maxHeld    = 32 << 20  // maximum bytes of all pending jobs
	maxJobs    = 20_000
	maxRatios  = 4096 // number of tools whose ratio of tokens to bytes is tracked
)

// work holds the pending jobs. tally.mu guards it.
type work struct {
	jobs   []job
	held   int       // bytes
	budget float64   // bytes
	since  time.Time // last update of budget
	ratios map[source]*ratio
	wake   chan struct{}
}

// A source identifies texts of one kind: the results of a tool, or its arguments.
type source struct {
	upstream, tool string
	results        bool
}

func (j *job) sourceOf() source { return source{j.Upstream, j.Tool, j.kind == read || j.kind == kept} }

// A ratio is the ratio of tokens to bytes.
type ratio struct{ tokens, bytes float64 }

func newWork(now time.Time) work {
	return work{budget: burst, since: now, ratios: map[source]*ratio{}, wake: make(chan struct{}, 1)}
}

// addJob queues a job. If it exceeds the budget, addJob returns false and keeps nothing.
func (w *work) addJob(j job, now time.Time) bool {
	n := j.textSize()
	w.budget = min(burst, w.budget+max(0, now.Sub(w.since).Seconds())*pace)
	w.since = now
	cost := float64(min(n, sample) + 64) // even a job with a small text has a cost
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

// aFew is the number of tokens per byte of JSON that is assumed before any were counted.
const aFew = 0.27

// estimateTokens returns the approximate number of tokens in a number of bytes.
func (w *work) estimateTokens(j *job, bytes int) int {
	per := aFew
	if r := w.ratios[j.sourceOf()]; r != nil && r.bytes > 0 {
		per = r.tokens / r.bytes
	}
	return int(per * float64(bytes))
}

// recordRatio records the number of tokens in a number of bytes.
func (w *work) recordRatio(j *job, n, bytes int) {
	k := j.sourceOf()
	if w.ratios[k] == nil {
		if len(w.ratios) >= maxRatios {
			return
		}
		w.ratios[k] = &ratio{}
	}
	w.ratios[k].tokens += float64(n)
	w.ratios[k].bytes += float64(bytes)
}

// countPending counts the tokens of all pending jobs. After ctx is done they are estimated.
// m.writing is held.
func (m *Meter) countPending(ctx context.Context) {
	for {
		m.tally.mu.Lock()
		jobs := m.tally.work.jobs
		m.tally.work.jobs, m.tally.work.held = nil, 0
		m.tally.mu.Unlock()
		if len(jobs) == 0 {
			return
		}
		for i := range jobs {
			m.countJob(ctx, jobs[i])
			jobs[i] = job{}
		}
	}
}

// countJob counts the tokens of one job.
func (m *Meter) countJob(ctx context.Context, j job) {
	n, exact, err := 0, false, context.Cause(ctx)
	if err == nil {
		n, exact = m.tokensOf(&j)
	}
	m.tally.mu.Lock()
	defer m.tally.mu.Unlock()
	c := m.tally.counts[j.slot]
	if c == nil {
		c = &Counts{}
		m.tally.counts[j.slot] = c
	}
	if err != nil {
		n, exact = m.tally.work.estimateTokens(&j, j.textSize()), false
	} else {
		m.tally.work.recordRatio(&j, n, j.textSize())
	}
	c.addTokens(j.kind, n, exact)
}

// addTokens adds tokens.
func (c *Counts) addTokens(k kind, n int, exact bool) {
	*c.countOf(k) += int64(n)
	if !exact {
		c.Estimated += int64(n)
	}
}

// tokensOf counts the tokens that a model reads or writes in a job: for a result its texts, or its
// structured content if there are none; for arguments all.
func (m *Meter) tokensOf(j *job) (n int, exact bool) {
	if j.content == nil {
		return m.cfg.Tokens.Sample(string(j.arguments), sample)
	}
	var texts strings.Builder // counted together: many small texts cost no more than a large one
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
