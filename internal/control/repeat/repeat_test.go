package repeat_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/repeat"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// openLog returns a Log of a real store in folder, and a function that closes the store.
func openLog(t *testing.T, folder string, clock *wallclock.Clock) (*repeat.Log, func()) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: folder})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	closed := sync.OnceFunc(func() { s.Close() })
	t.Cleanup(closed)
	k, err := secret.Open(filepath.Join(folder, "key"))
	if err != nil {
		t.Fatalf("secret.Open: %v", err)
	}
	return repeat.NewLog(s.OpenRepeats(k), clock), closed
}

// TestRepeat sends requests again: at once, after a restart, with another content, for another
// principal, and after the answer has expired.
func TestRepeat(t *testing.T) {
	folder, clock := t.TempDir(), wallclock.At(time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC))
	log, closeStore := openLog(t, folder, clock)
	made := 0
	send := func(principal, key, content string, status int) string {
		t.Helper()
		r := repeat.Request{Principal: principal, Key: key, Digest: []byte(content)}
		a, repeated, err := log.AnswerOnce(t.Context(), r, func() *repeat.Answer {
			made++
			return &repeat.Answer{Status: status, Body: fmt.Appendf(nil, "%s %d", content, made)}
		})
		if err != nil {
			return string(tool.AsError(err).Kind)
		}
		return fmt.Sprintf("%d %s %v", a.Status, a.Body, repeated)
	}
	check := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("the answer is %q, want %q", got, want)
		}
	}
	check(send("ann", "k", "a", 200), "200 a 1 false")
	check(send("ann", "k", "a", 200), "200 a 1 true")
	check(send("ann", "k", "b", 200), "conflict")
	check(send("ben", "k", "b", 400), "400 b 2 false")
	check(send("ben", "k", "b", 200), "400 b 2 true")
	check(send("ben", "l", "b", 503), "503 b 3 false") // nothing was done
	check(send("ben", "l", "b", 200), "200 b 4 false")
	begun := repeat.Request{Principal: "ben", Key: "m"}
	if _, _, err := log.AnswerOnce(t.Context(), begun, func() *repeat.Answer {
		return &repeat.Answer{Status: 503, Place: "/executions/ex_1"}
	}); err != nil {
		t.Fatalf("AnswerOnce: %v", err)
	}
	_, _, err := log.AnswerOnce(t.Context(), begun, func() *repeat.Answer {
		t.Error("a request that had begun something was made again")
		return &repeat.Answer{Status: 200}
	})
	if err == nil || !strings.Contains(err.Error(), "/executions/ex_1") {
		t.Errorf("a repeated request that had begun something: %v, want its place", err)
	}
	closeStore()
	log, _ = openLog(t, folder, clock)
	check(send("ann", "k", "a", 200), "200 a 1 true")
	clock.Advance(repeat.Kept)
	check(send("ann", "k", "a", 200), "200 a 5 false")
}

// TestRepeatLimits checks that only a principal's own answers make room, and that large answers are
// not repeated.
func TestRepeatLimits(t *testing.T) {
	clock := wallclock.At(time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC))
	log, _ := openLog(t, t.TempDir(), clock)
	send := func(principal, key string, size int) (repeated bool, err error) {
		clock.Advance(time.Millisecond)
		_, repeated, err = log.AnswerOnce(t.Context(), repeat.Request{Principal: principal, Key: key},
			func() *repeat.Answer { return &repeat.Answer{Status: 200, Body: make([]byte, size)} })
		return repeated, err
	}
	keep := repeat.MaxBytes / repeat.MaxAnswer / 2 // JSON makes bytes larger, and the newest must fit
	for i := range 3 * keep {
		principal := "eve"
		if i == 0 {
			principal = "ann"
		}
		if _, err := send(principal, fmt.Sprint(i), repeat.MaxAnswer); err != nil {
			t.Fatalf("send %d: %v", i, err)
		}
	}
	if again, err := send("ann", "0", 0); err != nil || !again {
		t.Errorf("ann's answer is repeated: %v, %v; want it to be kept", again, err)
	}
	if again, err := send("eve", fmt.Sprint(3*keep-1), 0); err != nil || !again {
		t.Errorf("eve's newest answer is repeated: %v, %v; want it to be kept", again, err)
	}
	if again, err := send("eve", "1", 0); err != nil || again {
		t.Errorf("eve's oldest answer is repeated: %v, %v; want it to be deleted", again, err)
	}
	if _, err := send("ann", "large", repeat.MaxAnswer+1); err != nil {
		t.Errorf("a large answer: %v, want it", err)
	}
	if _, err := send("ann", "large", 0); err == nil || tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("a large answer, repeated: %v; want a conflict", err)
	}
}

// TestRepeatAtOnce sends the same request many times at once, and one of them ends the process
// before it answers.
func TestRepeatAtOnce(t *testing.T) {
	folder := t.TempDir()
	log, closeStore := openLog(t, folder, nil)
	var made, repeated int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			r := repeat.Request{Principal: "ann", Key: "k"}
			_, again, err := log.AnswerOnce(t.Context(), r, func() *repeat.Answer {
				mu.Lock()
				defer mu.Unlock()
				made++
				return &repeat.Answer{Status: 201}
			})
			if err != nil {
				t.Errorf("AnswerOnce: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if again {
				repeated++
			}
		})
	}
	all.Wait()
	if made != 1 || repeated != 15 {
		t.Errorf("the request was made %d times and repeated %d times, want 1 and 15", made, repeated)
	}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = log.AnswerOnce(t.Context(), repeat.Request{Principal: "ann", Key: "died"}, func() *repeat.Answer {
			panic("the process ends")
		})
	}()
	closeStore()
	log, _ = openLog(t, folder, nil)
	_, _, err := log.AnswerOnce(t.Context(), repeat.Request{Principal: "ann", Key: "died"}, func() *repeat.Answer {
		t.Error("an interrupted request was made again")
		return &repeat.Answer{}
	})
	if err == nil || tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("an interrupted request, repeated: %v; want a conflict", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := log.AnswerOnce(ctx, repeat.Request{Principal: "ann", Key: "x"}, nil); err == nil {
		t.Error("a canceled request succeeds")
	}
}
