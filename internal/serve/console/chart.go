package console

import "fmt"

// A bar is one bar of a chart, in units of its view box.
type bar struct {
	X, Y, Width, Height int
	Label               string
}

// A chart is a bar chart, drawn on the server as SVG.
type chart struct {
	Title         string
	Width, Height int
	Bars          []bar
	From, To      string // the labels of the first and last bar
	Total         string
}

// A point is one value of a chart.
type point struct {
	Label string
	Value int64
}

// newChart returns the chart of some values. Bars of negative values have no height.
func newChart(title string, points []point) *chart {
	const step, gap, height = 20, 4, 80
	c := &chart{Title: title, Width: max(len(points), 1) * step, Height: height}
	most, sum := int64(1), int64(0)
	for _, p := range points {
		most, sum = max(most, p.Value), sum+p.Value
	}
	for i, p := range points {
		h := int(float64(max(p.Value, 0)) / float64(most) * (height - 2))
		if p.Value > 0 {
			h = max(h, 2)
		}
		c.Bars = append(c.Bars, bar{X: i*step + gap/2, Y: height - h, Width: step - gap, Height: h,
			Label: fmt.Sprintf("%s: %s", p.Label, formatCount(p.Value))})
	}
	if len(points) > 0 {
		c.From, c.To = points[0].Label, points[len(points)-1].Label
	}
	c.Total = formatCount(sum)
	return c
}

// formatCount returns a number with separators: 1,234,567.
func formatCount(n int64) string {
	text, sign := fmt.Sprint(n), ""
	if n < 0 {
		text, sign = text[1:], "-"
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// formatBytes returns a size in the largest unit of which it has at least one.
func formatBytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if v < 1<<10 {
			break
		}
		v, unit = v/(1<<10), next
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// formatDuration returns a number of milliseconds for people.
func formatDuration(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	case ms < 3_600_000:
		return fmt.Sprintf("%d min %d s", ms/60_000, ms%60_000/1000)
	}
	return fmt.Sprintf("%d h %d min", ms/3_600_000, ms%3_600_000/60_000)
}
