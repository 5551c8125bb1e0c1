package text

// Distance returns the number of bytes to insert, delete, replace or swap with a neighbor that turn
// a into b. It returns more than limit if that is immediately certain or one of them is longer than
// 64. It is for "did you mean" suggestions.
func Distance(a, b string, limit int) int {
	if len(a) > 64 || len(b) > 64 || len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	return EditDistance([]byte(a), []byte(b))
}

// EditDistance returns the number of bytes to insert, delete, replace or swap with a neighbor
// (optimal string alignment). Both slices have at most 64 bytes.
func EditDistance(a, b []byte) int {
	var rows [3][66]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
