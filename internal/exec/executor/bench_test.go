package executor_test

import (
	"fmt"
	"testing"
)

// BenchmarkExecute measures what a user waits for: from the text of a program to its answer.
func BenchmarkExecute(b *testing.B) {
	for _, c := range []struct{ name, code string }{
		{"expression", `1 + 1`},
		{"30 lines", `const rows = Array.from({ length: 200 }, (_, i) => ({ id: i, group: "g" + (i % 7), amount: i * ` +
			`1.5 }));` + "\n" +
			repeat(20, func(i int) string {
				return fmt.Sprintf(
					"const s%d = rows.filter((r) => r.id %% %d === 0).reduce((s, r) => s + r.amount, 0);", i, i+2)
			}) + `return { s0, s1, s2, s3, groups: Object.groupBy(rows, (r) => r.group).g1.length }`},
		{"one call", `return await box.echo({ a: 1 })`},
		{"100 calls", `return (await Promise.all(Array.from({ length: 100 }, (_, i) => box.echo({ i })))).length`},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b, standard(), nil)
			for b.Loop() {
				r.value(c.code)
			}
		})
	}
}
