package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// next holds, for each language, a program that counts its runs in a session.
var next = map[string]string{
	"js": `(() => { globalThis.n = (globalThis.n ?? 0) + 1; globalThis.pad = Array.from({ length: 500 * n }, (_, ` +
		`i) => "x" + i); return [n, pad.length]; })`,
	"python": "try: n += 1\\nexcept NameError: n = 1\\npad = ['x%d' % i for i in range(500 * n)]\\n[n, len(pad)]",
}

// count runs next and checks its value.
func (k kept) count(want int) {
	k.t.Helper()
	line := fmt.Sprintf(`{"at":1767225700000,"run":{"code":%q,"name":"x","session":true,"seed":"%064d"}}`,
		next["js"], want)
	if k.kind.lang.name == "python" {
		line = fmt.Sprintf(`{"at":1767225700000,"run":{"code":"%s","name":"x","session":true,"seed":"%064d"}}`,
			next["python"], want)
	}
	if got := strings.ReplaceAll(k.say(line), " ", ""); !strings.Contains(got,
		fmt.Sprintf(`"value":[%d,%d]`, want, 500*want)) {
		k.t.Errorf("run %d gives %s", want, got)
	}
}

func (k kept) fork() kept {
	k.t.Helper()
	s, err := k.Fork(k.t.Context())
	if err != nil {
		k.t.Fatalf("Fork: %v", err)
	}
	k.t.Cleanup(func() { _ = s.Close() })
	return kept{k.t, s.(*Sandbox)}
}

// parked reports whether a sandbox has no memory mapped.
func (k kept) parked() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.region == nil
}

// TestPark checks that parking doesn't change a guest, byte for byte, and that the most recently
// used guest stays mapped.
func TestPark(t *testing.T) {
	for _, lang := range []string{"js", "python"} {
		t.Run(lang, func(t *testing.T) {
			d, wide := realDriver(t, Config{Idle: 1}), realDriver(t, Config{})
			spec := sandbox.Spec{Runtime: lang}
			var all []kept
			control := newKept(t, wide, spec)
			for range 4 {
				all = append(all, newKept(t, d, spec))
			}
			for round := 1; round <= 3; round++ {
				control.count(round)
				want := control.snapshot()
				for i, k := range all {
					k.count(round)
					if got := k.snapshot(); !bytes.Equal(got, want) {
						t.Fatalf("round %d: guest %d differs from one that was never parked", round, i)
					}
				}
				for i, k := range all {
					if k.parked() != (i < len(all)-1) {
						t.Errorf("round %d: guest %d is parked: %v", round, i, k.parked())
					}
					if got := k.snapshot(); !bytes.Equal(got, want) || round == 1 && i < len(all)-1 && !k.parked() {
						t.Errorf("round %d: another snapshot of guest %d differs, or mapped it", round, i)
					}
				}
			}
			if control.parked() {
				t.Error("a guest that there is room for is parked")
			}
			for _, k := range all {
				if err := k.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			if len(d.idle.list) != 0 || d.idle.bytes != 0 {
				t.Errorf("%d guests, %d bytes are left in the list", len(d.idle.list), d.idle.bytes)
			}
		})
	}
}

// TestForkSaved forks saved guests. Each copy has the state that was saved, regardless of what
// happens to the original.
func TestForkSaved(t *testing.T) {
	for _, lang := range []string{"js", "python"} {
		t.Run(lang, func(t *testing.T) {
			d := realDriver(t, Config{Idle: 1})
			k := newKept(t, d, sandbox.Spec{Runtime: lang})
			k.count(1)
			want := k.snapshot()
			near, far, last := k.fork(), k.fork(), k.fork()
			if !near.parked() {
				t.Error("a copy that nobody used has memory")
			}
			near.count(2) // forked from where the original is mapped
			k.count(2)
			k.count(3)
			far.count(2) // although the original has moved on
			if err := k.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			if got := last.snapshot(); !bytes.Equal(got, want) {
				t.Error("a copy differs from what it was copied from")
			}
			of := last.fork()
			last.count(2)
			of.count(2)
			if a, b := near.snapshot(), far.snapshot(); !bytes.Equal(a, b) || !bytes.Equal(a, of.snapshot()) ||
				!bytes.Equal(a, last.snapshot()) {
				t.Error("copies that did the same differ")
			}
		})
	}
}

// TestParkLimits checks that a parked guest keeps its limits. If it can't be mapped, Run returns an
// error and the guest stays unchanged.
func TestParkLimits(t *testing.T) {
	d := realDriver(t, Config{Idle: 1})
	k := newKept(t, d, sandbox.Spec{Memory: 16 << 20, CPU: 3 * time.Second, Output: 1 << 20})
	k.count(1)
	k.snapshot()
	other := newKept(t, d, sandbox.Spec{})
	other.count(1)
	other.snapshot()
	if !k.parked() {
		t.Fatal("it is not parked")
	}
	good := k.saved.head
	bad := bytes.Clone(good)
	bad[len(bad)/2] ^= 1
	k.saved.head = bad
	var e *tool.Error
	_, err := k.Run(t.Context(), &sandbox.Cmd{Guest: &script{Reader: strings.NewReader("")}, Keep: true})
	if !errors.As(err, &e) || e.Kind != tool.Unavailable || !k.parked() {
		t.Errorf("what is damaged: %v", err)
	}
	k.saved.head = good
	k.count(2)
	var limit *sandbox.LimitError
	c := &script{Reader: strings.NewReader(
		program(`(() => { const a = []; for (;;) a.push(new Array(1000).fill(1)); })`) + "\n")}
	if _, err := k.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err == nil && !strings.Contains(c.String(),
		"out of memory") || err != nil && !errors.As(err, &limit) {
		t.Errorf("more memory than the guest may have: %v, %.200s", err, c.String())
	}
	if most := int64(cap(k.region.memory())); most != 16<<20 {
		t.Errorf("the guest may grow to %d bytes", most)
	}
	other.snapshot()
	third := newKept(t, d, sandbox.Spec{})
	third.count(1)
	third.snapshot()
	if err := d.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err := other.Run(t.Context(), &sandbox.Cmd{Guest: &script{Reader: strings.NewReader("")},
		Keep: true}); !errors.As(err, &e) || e.Kind != tool.Unavailable {
		t.Errorf("a parked guest of a driver that is closed: %v", err)
	}
}

// TestParkRace runs, saves, forks and closes many guests concurrently, only a few of them mapped.
func TestParkRace(t *testing.T) {
	d := realDriver(t, Config{Idle: 1 << 20})
	var work sync.WaitGroup
	base := newKept(t, d, sandbox.Spec{})
	base.count(1)
	base.snapshot()
	for n := range 6 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			k, ran := base.forkAtLast(), 1
			for range 40 {
				switch random.IntN(5) {
				case 0, 1:
					ran++
					k.count(ran)
				case 2, 3:
					if _, err := k.Snapshot(t.Context()); err != nil {
						t.Errorf("Snapshot: %v", err)
					}
				default:
					c := k.forkAtLast()
					if random.IntN(2) == 0 {
						k, c = c, k
					}
					if err := c.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				}
			}
			_ = k.Close()
		})
	}
	work.Wait()
	base.count(2)
	base.snapshot()
	d.idle.mu.Lock()
	defer d.idle.mu.Unlock()
	if len(d.idle.list) != 1 || d.idle.list[0].s != base.Sandbox || d.idle.bytes != base.saved.size() {
		t.Errorf("%d guests, %d bytes are left in the list", len(d.idle.list), d.idle.bytes)
	}
}

// forkAtLast forks k, and retries while another goroutine uses k.
func (k kept) forkAtLast() kept {
	for {
		s, err := k.Fork(k.t.Context())
		if err == nil {
			return kept{k.t, s.(*Sandbox)}
		}
		if e := (*tool.Error)(nil); !errors.As(err, &e) || e.Kind != tool.Conflict {
			k.t.Errorf("err = %v, want errors.As(err, &e) && e.Kind == tool.Conflict", err)
			return k
		}
	}
}
