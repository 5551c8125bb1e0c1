package metrics

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
)

// callBuckets are the upper bounds for durations of calls and executions in seconds: from an echo
// to a call that a person must approve.
var callBuckets = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// A histogram counts durations, by the value of one label. The library for process metrics only has
// histograms with buckets that Prometheus can't read.
type histogram struct {
	name, help, label string

	mu     sync.Mutex
	series map[string]*series
}

// A series holds the counts for one value of the label.
type series struct {
	counts [len(callBuckets) + 1]uint64 // per bucket, not cumulative; the last one is for longer durations
	sum    float64
}

// newHistogram returns a histogram that has the series of values from the start.
func newHistogram(name, help, label string, values ...string) *histogram {
	h := &histogram{name: name, help: help, label: label, series: map[string]*series{}}
	for _, v := range values {
		h.series[v] = new(series)
	}
	return h
}

// observeDuration counts a duration.
func (h *histogram) observeDuration(value string, seconds float64) {
	bucket, _ := slices.BinarySearch(callBuckets[:], seconds)
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.series[value]
	if s == nil {
		s = new(series)
		h.series[value] = s
	}
	s.counts[bucket]++
	s.sum += seconds
}

// writeSeries writes all series in Prometheus' text format, whose buckets are cumulative.
func (h *histogram) writeSeries(w io.Writer) {
	writeFamily(w, h.name, "histogram", h.help)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, value := range slices.Sorted(maps.Keys(h.series)) {
		s, of, total := h.series[value], h.label+"="+quoteLabel(value), uint64(0)
		for i, n := range s.counts {
			bound := "+Inf"
			if i < len(callBuckets) {
				bound = strconv.FormatFloat(callBuckets[i], 'g', -1, 64)
			}
			total += n
			fmt.Fprintf(w, "%s_bucket{%s,le=%q} %d\n", h.name, of, bound, total)
		}
		fmt.Fprintf(w, "%s_sum{%s} %s\n%s_count{%s} %d\n", h.name, of, strconv.FormatFloat(s.sum, 'g', -1, 64),
			h.name, of, total)
	}
}

// A counter counts events by the values of two labels.
type counter struct {
	name, help string
	labels     [2]string

	mu     sync.Mutex
	counts map[[2]string]uint64
}

func newCounter(name, help, first, second string) *counter {
	return &counter{name: name, help: help, labels: [2]string{first, second}, counts: map[[2]string]uint64{}}
}

// addOne adds one.
func (c *counter) addOne(first, second string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[[2]string{first, second}]++
}

// writeSeries writes all series in Prometheus' text format.
func (c *counter) writeSeries(w io.Writer) {
	writeFamily(w, c.name, "counter", c.help)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range slices.SortedFunc(maps.Keys(c.counts),
		func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		fmt.Fprintf(w, "%s{%s=%s,%s=%s} %d\n", c.name, c.labels[0], quoteLabel(v[0]), c.labels[1],
			quoteLabel(v[1]), c.counts[v])
	}
}
