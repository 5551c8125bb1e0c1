//go:build linux && (amd64 || arm64)

package pyguest

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// BenchmarkCPU runs programs that need CPU time, once per iteration.
func BenchmarkCPU(b *testing.B) {
	for _, c := range []struct{ name, setup, code string }{
		{"fib", "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)", "fib(24)"},
		{"json", "import json\nrows = [{'id': i, 'name': 'user-%d' % i, 'tags': ['a', 'b'], 'v': i * 1.5} for i in " +
			"range(20000)]", "len(json.dumps(json.loads(json.dumps(rows))))"},
		{"sort", "rows = [{'k': (i * 7919) % 100003} for i in range(50000)]",
			"sorted(rows, key=lambda r: r['k'])[0]['k']"},
		{"regex", "import re\ntext = 'the quick brown fox jumps over 13 lazy dogs, ' * 5000\np = " +
			"re.compile(r'(\\w+)\\s(\\d+)')", "len(p.findall(text))"},
		{"aggregate", "from collections import defaultdict",
			"g = defaultdict(list)\nfor i in range(50000): g[i % 97].append(i)\nsum(max(v) for v in g.values())"},
		{"sha256", "import hashlib\ndata = b'x' * (1 << 20)", "hashlib.sha256(data).hexdigest()"},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := start(b)
			run := func(code string) {
				if _, fail, err := m.run(sandbox.Run{Code: code, Session: true}); err != nil || fail != nil {
					b.Fatalf("fail = %v, err = %v, want err == nil && fail == nil", fail, err)
				}
			}
			run(c.setup)
			for b.Loop() {
				run(c.code)
			}
		})
	}
}
