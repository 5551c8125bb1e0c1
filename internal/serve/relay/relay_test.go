package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An end is the other end of a backend.
type end struct {
	in  *bufio.Reader  // what the relay writes
	out *io.PipeWriter // what the relay reads
}

// newBackend returns a backend and its other end.
func newBackend() (Backend, end) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	return pipes{outR, inW}, end{bufio.NewReader(inR), outW}
}

// pipes are a Backend.
type pipes struct {
	*io.PipeReader
	in *io.PipeWriter
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p pipes) CloseWrite() error { return p.in.Close() }

func (p pipes) Close() error { return errors.Join(p.in.Close(), p.PipeReader.Close()) }

// connects is a Connector.
type connects func(context.Context) (Backend, error)

func (f connects) ConnectBackend(ctx context.Context) (Backend, error) { return f(ctx) }

// line reads a line, and checks that it contains want.
func line(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	got, err := r.ReadString('\n')
	if err != nil || !strings.Contains(got, want) {
		t.Errorf("read %q (%v), want %q", got, err, want)
	}
}

// An agent is the agent's side of the relay.
type agent struct {
	say  *io.PipeWriter
	hear *bufio.Reader
	over chan error // the error that Run returned
}

// begin runs a relay that connects to the given backends in order, and then to none.
func begin(ctx context.Context, backends ...Backend) agent {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	a := agent{inW, bufio.NewReader(outR), make(chan error, 1)}
	connect := func(context.Context) (Backend, error) {
		if len(backends) == 0 {
			return nil, errors.New("nobody answers")
		}
		b := backends[0]
		backends = backends[1:]
		return b, nil
	}
	go func() { a.over <- Run(ctx, Config{Connector: connects(connect), Drain: 5 * time.Second}, inR, outW) }()
	return a
}

// greet performs the handshake between agent and backend.
func greet(t *testing.T, a agent, e end) {
	t.Helper()
	fmt.Fprintln(a.say, `{"id":1,"method":"initialize"}`)
	line(t, e.in, `"initialize"`)
	fmt.Fprintln(e.out, `{"id":1,"result":{}}`)
	line(t, a.hear, `"result"`)
	fmt.Fprintln(a.say, `{"method":"notifications/initialized"}`)
	line(t, e.in, `"notifications/initialized"`)
}

// TestLost loses the backend while a request is in progress: the agent gets an error, and continues
// with the next backend, which has received its handshake.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b1, e1 := newBackend()
		b2, e2 := newBackend()
		a := begin(t.Context(), b1, b2)
		greet(t, a, e1)
		fmt.Fprintln(a.say, `{"id":2,"method":"tools/call"}`)
		line(t, e1.in, `"tools/call"`)
		fmt.Fprintln(e1.out, `{"method":"notifications/message"}`)
		line(t, a.hear, `"notifications/message"`)
		e1.out.Close()
		line(t, e2.in, `"initialize"`)
		fmt.Fprintln(e2.out, `{"id":1,"result":{}}`) // the agent has already received this one
		line(t, e2.in, `"notifications/initialized"`)
		line(t, a.hear, `"id":2,"jsonrpc"`)
		fmt.Fprintln(a.say, `{"id":3,"method":"tools/call"}`)
		line(t, e2.in, `"id":3`)
		fmt.Fprintln(e2.out, `{"id":3,"result":{}}`)
		line(t, a.hear, `"id":3`)

		a.say.Close() // the agent is done
		if _, err := e2.in.ReadString('\n'); err != io.EOF {
			t.Errorf("the backend hears no end: %v", err)
		}
		e2.out.Close()
		if err := <-a.over; err != nil {
			t.Errorf("err = %v, want nil", err)
		}
	})
}

// TestRequestsAgain loses a backend that says which requests it accepted. The others are sent to
// the next backend in their order, and so are requests that change nothing, whatever the backend
// said.
func TestRequestsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		end            string // what the backend says at its end
		refused, again []string
	}{
		"killed": {"", []string{"2", "4", "5"}, []string{`"id":3`}},
		"stopped": {`{"method":"notifications/biplane/end","params":{"accepted":["2","3"]}}` + "\n",
			[]string{"2"}, []string{`"id":3`, `"id":4`, `"id":5`}},
		"unclear": {`{"method":"notifications/biplane/end"}` + "\n", []string{"2", "4", "5"}, []string{`"id":3`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b1, e1 := newBackend()
				b2, e2 := newBackend()
				a := begin(t.Context(), b1, b2)
				greet(t, a, e1)
				for _, m := range []string{
					`{"id":2,"method":"tools/call"}`, `{"id":3,"method":"tools/list"}`,
					`{"id":4,"method":"tools/call"}`, `{"id":5,"method":"resources/read"}`,
					`{"id":6,"method":"tools/call"}`,
					`{"method":"notifications/cancelled","params":{"requestId":6}}`,
				} {
					fmt.Fprintln(a.say, m)
					line(t, e1.in, m)
				}
				go func() {
					fmt.Fprint(e1.out, c.end)
					e1.out.Close()
				}()
				line(t, e2.in, `"initialize"`)
				fmt.Fprintln(e2.out, `{"id":1,"result":{}}`)
				line(t, e2.in, `"notifications/initialized"`)
				errs := map[string]bool{}
				for range c.refused {
					text, err := a.hear.ReadString('\n')
					if err != nil || !strings.Contains(text, "unknown whether it took effect") {
						t.Fatalf("read %q (%v), want an error", text, err)
					}
					var e envelope
					if err := json.Unmarshal([]byte(text), &e); err != nil {
						t.Fatalf("%q: %v", text, err)
					}
					errs[string(e.ID)] = true
				}
				for _, id := range c.refused {
					if !errs[id] {
						t.Errorf("errs = %v, want one for %s", errs, id)
					}
				}
				for _, id := range c.again {
					line(t, e2.in, id)
					fmt.Fprintf(e2.out, "{%s,\"result\":{}}\n", id)
					line(t, a.hear, id)
				}
				fmt.Fprintln(a.say, `{"id":7,"method":"ping"}`)
				line(t, e2.in, `"id":7`) // nothing else was sent again
				a.say.Close()
				if rest, err := io.ReadAll(e2.in); len(rest) > 0 || err != nil {
					t.Errorf("read %q (%v), want nothing", rest, err)
				}
				e2.out.Close()
				if err := <-a.over; err != nil {
					t.Errorf("err = %v, want nil", err)
				}
			})
		})
	}
}

// TestNoRoomForRequests loses a backend while the agent has sent more than is kept: the agent gets
// an error for what was not kept.
func TestNoRoomForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b1, e1 := newBackend()
		b2, e2 := newBackend()
		a := begin(t.Context(), b1, b2)
		greet(t, a, e1)
		for id := 2; id <= 4; id++ { // the third is small again
			fmt.Fprintf(a.say, "{\"id\":%d,\"method\":\"ping\",\"params\":%q}\n", id,
				strings.Repeat("x", []int{2: keptBytes - 1000, 3: 2000, 4: 1}[id]))
			line(t, e1.in, fmt.Sprintf(`"id":%d`, id))
		}
		e1.out.Close()
		line(t, e2.in, `"initialize"`)
		fmt.Fprintln(e2.out, `{"id":1,"result":{}}`)
		line(t, e2.in, `"notifications/initialized"`)
		line(t, a.hear, `"id":3`)
		line(t, e2.in, `"id":2`)
		line(t, e2.in, `"id":4`)
		a.say.Close()
		if rest, err := io.ReadAll(e2.in); len(rest) > 0 || err != nil {
			t.Errorf("read %q (%v), want nothing", rest, err)
		}
		e2.out.Close()
		if err := <-a.over; err != nil {
			t.Errorf("err = %v, want nil", err)
		}
	})
}

// TestLostForGood loses the only backend.
func TestLostForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, e := newBackend()
		a := begin(t.Context(), b)
		greet(t, a, e)
		e.out.Close()
		if err := <-a.over; err == nil || !strings.Contains(err.Error(), "nobody answers") {
			t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "nobody answers")`, err)
		}
		a.say.Close()
	})
}

// TestStops ends the context while a request is in progress: a new request is refused; the other
// may finish within a time limit.
func TestStops(t *testing.T) {
	for name, answered := range map[string]bool{"answered": true, "given up": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				b, e := newBackend()
				a := begin(ctx, b)
				greet(t, a, e)
				fmt.Fprintln(a.say, `{"id":2,"method":"tools/call"}`)
				line(t, e.in, `"tools/call"`)
				cancel()
				synctest.Wait()
				fmt.Fprintln(a.say, `{"id":3,"method":"tools/call"}`)
				line(t, a.hear, "accepts no more requests")
				start := time.Now()
				if answered {
					fmt.Fprintln(e.out, `{"id":2,"result":{}}`)
					line(t, a.hear, `"result"`)
				} else {
					line(t, a.hear, "the request was canceled before its answer arrived")
				}
				if err := <-a.over; err != nil {
					t.Errorf("err = %v, want nil", err)
				}
				if took := time.Since(start); took != 0 && answered || took != 5*time.Second && !answered {
					t.Errorf("it took %s", took)
				}
				a.say.Close()
			})
		})
	}
}

// TestSilentBackend connects again to a backend that doesn't answer the handshake: that ends with
// the context, or after a time limit.
func TestSilentBackend(t *testing.T) {
	for name, canceled := range map[string]bool{"stopped": true, "too late": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b1, e1 := newBackend()
				b2, e2 := newBackend()
				a := begin(ctx, b1, b2)
				greet(t, a, e1)
				e1.out.Close()
				line(t, e2.in, `"initialize"`)
				start := time.Now()
				if canceled {
					cancel()
				}
				if err := <-a.over; err == nil && !canceled {
					t.Error("the relay ended without an error")
				}
				if took := time.Since(start); canceled && took > 0 || !canceled && took != greetWait {
					t.Errorf("it took %s", took)
				}
				a.say.Close()
			})
		})
	}
}

// TestLongLine reads a message that is too long: it is truncated, and the next one is complete.
func TestLongLine(t *testing.T) {
	r := bufio.NewReader(io.MultiReader(io.LimitReader(zeros{}, messageBytes+100<<10), strings.NewReader("\n{}\n")))
	long, err := readLine(r)
	if err != nil || len(long) < messageBytes || len(long) > messageBytes+8<<10 || long[len(long)-1] != '\n' {
		t.Errorf("%d bytes, %v", len(long), err)
	}
	if next, err := readLine(r); string(next) != "{}\n" || err != nil {
		t.Errorf(`next = %q, err = %v, want string(next) == "{}\n" && err == nil`, next, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}
