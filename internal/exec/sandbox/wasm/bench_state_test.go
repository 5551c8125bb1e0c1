//go:build unix

package wasm

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// cpu starts measuring the process's CPU time. The returned function reports it per iteration of
// the benchmark. On a busy machine CPU time varies less than elapsed time.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatalf("unix.Getrusage: %v", err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// typical returns a session that has run a program such as agents write.
func typical(b *testing.B, d *Driver) kept {
	k := newKept(b, d, sandbox.Spec{})
	if got := k.say(program(thirtyLines)); !strings.Contains(got, `"done"`) {
		b.Fatalf("got = %v, want strings.Contains(got, `\"done\"`)", got)
	}
	return k
}

// BenchmarkFresh creates a sandbox and runs a first line to its value. Most variants use one
// goroutine and no stream, which measures the engine alone. Preparing the next sandbox is included,
// except in "prepared".
func BenchmarkFresh(b *testing.B) {
	d := realDriver(b, Config{})
	line := javaScript().first
	once := func(s *Sandbox) {
		err := s.guest.enter(func() error {
			if err := s.guest.engine.deliver(line); err != nil {
				return err
			}
			return s.guest.engine.work()
		})
		if err != nil {
			b.Fatalf("enter: %v", err)
		}
	}
	b.Run("whole", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			s, err := d.Create(b.Context(), sandbox.Spec{})
			if err != nil {
				b.Fatalf("Create: %v", err)
			}
			once(s.(*Sandbox))
			_ = s.Close()
		}
	})
	b.Run("prepared", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			s, err := d.Create(b.Context(), sandbox.Spec{})
			if err != nil {
				b.Fatalf("Create: %v", err)
			}
			once(s.(*Sandbox))
			b.StopTimer()
			_ = s.Close()
			b.StartTimer()
		}
	})
	b.Run("run", func(b *testing.B) { // through the stream
		defer cpu(b)()
		for b.Loop() {
			k := newKeptQuick(b, d)
			k.say(line)
			_ = k.Close()
		}
	})
	// to its value, through a stream that doesn't block, in a separate goroutine
	b.Run("prompt", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			k := newKeptQuick(b, d)
			p := &promptTape{lines: line + "\n", heard: make(chan string, 1)}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() {
				_, _ = k.Run(ctx, &sandbox.Cmd{Guest: p, Keep: true}) // the context stops it
				close(ended)
			}()
			<-p.heard
			stop()
			<-ended
			_ = k.Close()
		}
	})
}

func newKeptQuick(b *testing.B, d *Driver) kept {
	s, err := d.Create(b.Context(), sandbox.Spec{})
	if err != nil {
		b.Fatalf("Create: %v", err)
	}
	return kept{b, s.(*Sandbox)}
}

// BenchmarkSnapshot suspends a session.
func BenchmarkSnapshot(b *testing.B) {
	for name, cfg := range map[string]bool{"scan": true, "compare": false} {
		b.Run(name, func(b *testing.B) {
			d := realDriver(b, Config{})
			if !cfg {
				d.cfg.Pagemap = nil
			}
			k := typical(b, d)
			img, _ := k.kind.loadImage()
			n := 0
			defer cpu(b)()
			for b.Loop() {
				k.saved = nil // otherwise the snapshot would be cached
				n = len(k.snapshot())
			}
			b.ReportMetric(float64(n), "bytes")
			b.ReportMetric(float64(len(k.changedPages(img))), "pages")
		})
	}
}

// BenchmarkRestore resumes a session from a snapshot, with and without running to a first value.
func BenchmarkRestore(b *testing.B) {
	d := realDriver(b, Config{})
	snapshot := typical(b, d).snapshot()
	for name, run := range map[string]bool{"only": false, "to value": true} {
		b.Run(name, func(b *testing.B) {
			defer cpu(b)()
			for b.Loop() {
				s, err := d.Restore(b.Context(), sandbox.Spec{}, snapshot)
				if err != nil {
					b.Fatalf("Restore: %v", err)
				}
				if run {
					(kept{b, s.(*Sandbox)}).say(program(`(() => 1)`))
				}
				_ = s.Close()
			}
		})
	}
}

// BenchmarkFork copies a session.
func BenchmarkFork(b *testing.B) {
	d := realDriver(b, Config{})
	k := typical(b, d)
	defer cpu(b)()
	for b.Loop() {
		s, err := k.Fork(b.Context())
		if err != nil {
			b.Fatalf("Fork: %v", err)
		}
		b.StopTimer()
		_ = s.Close()
		b.StartTimer()
	}
}

// BenchmarkFurther runs a further program in a session: in the engine alone, and in a copy of the
// session. The pages are the copy's own, including the copied ones.
func BenchmarkFurther(b *testing.B) {
	d := realDriver(b, Config{})
	line := program(`(async () => { return await 1; })`)
	once := func(s *Sandbox) {
		err := s.guest.enter(func() error {
			if err := s.guest.engine.deliver(line); err != nil {
				return err
			}
			return s.guest.engine.work()
		})
		if err != nil {
			b.Fatalf("enter: %v", err)
		}
	}
	b.Run("same session", func(b *testing.B) {
		k := typical(b, d)
		defer cpu(b)()
		for b.Loop() {
			once(k.Sandbox)
		}
	})
	b.Run("fork", func(b *testing.B) {
		k := typical(b, d)
		size := 0
		defer cpu(b)()
		for b.Loop() {
			made, err := k.Fork(b.Context())
			if err != nil {
				b.Fatalf("Fork: %v", err)
			}
			s := made.(*Sandbox)
			once(s)
			if size == 0 {
				_, own := s.pages(s.img)
				for _, p := range own {
					size += p[1] - p[0]
				}
			}
			_ = s.Close()
		}
		b.ReportMetric(float64(size/pageSize), "pages")
	})
}

// BenchmarkPythonState is BenchmarkRestore, BenchmarkFork and BenchmarkSnapshot for Python.
func BenchmarkPythonState(b *testing.B) {
	d := realDriver(b, Config{})
	k := newKept(b, d, sandbox.Spec{Runtime: "python"})
	typical, err := os.ReadFile("../../../lab/bench/typical.py")
	if err != nil {
		b.Fatalf("os.ReadFile: %v", err)
	}
	if got := k.say(pyLine(string(typical))); !strings.Contains(got, `"regions":4`) {
		b.Fatalf("got = %v, want strings.Contains(got, `\"regions\":4`)", got)
	}
	snapshot := k.snapshot()
	pages := k.saved.size() / pageSize
	copies := func(make func() (sandbox.Sandbox, error), run bool) func(*testing.B) {
		return func(b *testing.B) {
			defer cpu(b)()
			for b.Loop() {
				s, err := make()
				if err != nil {
					b.Fatalf("make: %v", err)
				}
				if run {
					(kept{b, s.(*Sandbox)}).say(pyLine("len(regions)"))
				}
				_ = s.Close()
			}
		}
	}
	restore := func() (sandbox.Sandbox, error) { return d.Restore(b.Context(), sandbox.Spec{}, snapshot) }
	fork := func() (sandbox.Sandbox, error) { return k.Fork(b.Context()) }
	b.Run("restore", copies(restore, false))
	b.Run("restore to value", copies(restore, true))
	b.Run("fork to value", copies(fork, true))
	k.saved = nil
	b.Run("fork unsaved", copies(fork, false))
	b.Run("value", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			k.say(pyLine("len(regions)"))
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			k.saved = nil
			k.snapshot()
		}
		b.ReportMetric(float64(pages), "pages")
	})
}

// BenchmarkLoad unpacks the golden image.
func BenchmarkLoad(b *testing.B) {
	c, l := &codec{}, javaScript()
	defer cpu(b)()
	for b.Loop() {
		img, err := unpackImage(c, l)
		if err != nil {
			b.Fatalf("unpackImage: %v", err)
		}
		img.close()
	}
}
