package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
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
		"stopped": {`{"method":"notifications/biplane/end","params":{"read":5,"left":[5]}}` + "\n",
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
					e, ok := readEnvelope([]byte(text))
					if !ok {
						t.Fatalf("read %q, want a message", text)
					}
					errs[string(e.id)] = true
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
				fmt.Fprintln(e2.out, `{"id":7,"result":{}}`)
				line(t, a.hear, `"id":7`)
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
		const large = keptLine - 1000
		sizes := map[int]int{2: large, 3: large, 4: large, 5: large, 6: 5000, 7: 1}
		for id := 2; id <= 7; id++ {
			fmt.Fprintf(a.say, "{\"id\":%d,\"method\":\"ping\",\"params\":%q}\n", id, strings.Repeat("x", sizes[id]))
			line(t, e1.in, fmt.Sprintf(`"id":%d`, id))
		}
		e1.out.Close()
		line(t, e2.in, `"initialize"`)
		fmt.Fprintln(e2.out, `{"id":1,"result":{}}`)
		line(t, e2.in, `"notifications/initialized"`)
		line(t, a.hear, `"id":6`)
		for _, id := range []int{2, 3, 4, 5, 7} {
			line(t, e2.in, fmt.Sprintf(`"id":%d`, id))
			fmt.Fprintf(e2.out, "{\"id\":%d,\"result\":{}}\n", id)
			line(t, a.hear, fmt.Sprintf(`"id":%d`, id))
		}
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
				took := time.Since(start)
				if canceled && took > 0 || !canceled && (took > greetWait || took < greetWait-shortLife) {
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

// TestOtherSpelling loses a backend that spells the id of a request in another way than the agent
// did, in its answer or at its end: the request is not sent again.
func TestOtherSpelling(t *testing.T) {
	for asked, said := range map[string]string{
		`"a\/1"`:       `{"id":"a/1","result":{}}`,
		`"\u00e9"`:     `{"id":"é","result":{}}`,
		`-0`:           `{"id":0,"result":{}}`,
		"\"\xff\"":     `{"id":"\ufffd","result":{}}`,
		"\"\xfe\"":     `{"method":"notifications/biplane/end","params":{"read":3,"left":[]}}`,
		`2,"ID":"two"`: `{"id":2,"result":{}}`, // the server reads only id
	} {
		t.Run(asked, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b1, e1 := newBackend()
				b2, e2 := newBackend()
				a := begin(t.Context(), b1, b2)
				greet(t, a, e1)
				fmt.Fprintf(a.say, "{\"id\":%s,\"method\":\"tools/call\"}\n", asked)
				line(t, e1.in, `"tools/call"`)
				heard := make(chan string, 10)
				go func() {
					for {
						text, err := a.hear.ReadString('\n')
						if err != nil || text == "the end\n" {
							return
						}
						heard <- text
					}
				}()
				fmt.Fprintln(e1.out, said)
				if !strings.Contains(said, "biplane/end") {
					fmt.Fprintln(e1.out, `{"method":"notifications/biplane/end","params":{"read":3,"left":[]}}`)
				}
				e1.out.Close()
				line(t, e2.in, `"initialize"`)
				fmt.Fprintln(e2.out, `{"id":1,"result":{}}`)
				line(t, e2.in, `"notifications/initialized"`)
				synctest.Wait()
				a.say.Close()
				if rest, err := io.ReadAll(e2.in); len(rest) > 0 {
					t.Errorf("the next backend got %q (%v): the call is made twice", rest, err)
				}
				fmt.Fprintln(e2.out, "the end")
				e2.out.Close()
				<-a.over
			})
		})
	}
}

// TestEndAfterInput loses a backend that did not accept a request, after the agent has closed its
// side, as in a shell pipeline: the request is answered.
func TestEndAfterInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b1, e1 := newBackend()
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		backs := []Backend{b1}
		connect := func(context.Context) (Backend, error) {
			if len(backs) == 0 {
				return nil, errors.New("nobody answers")
			}
			defer func() { backs = nil }()
			return backs[0], nil
		}
		go func() {
			_ = Run(t.Context(), Config{Connector: connects(connect)}, inR, outW)
			outW.Close()
		}()
		a := agent{say: inW, hear: bufio.NewReader(outR)}
		greet(t, a, e1)
		fmt.Fprintln(a.say, `{"id":2,"method":"tools/call"}`)
		line(t, e1.in, `"tools/call"`)
		a.say.Close()
		synctest.Wait()
		go func() {
			fmt.Fprintln(e1.out, `{"method":"notifications/biplane/end","params":{"read":2,"left":[]}}`)
			e1.out.Close()
		}()
		rest, _ := io.ReadAll(a.hear)
		if !strings.Contains(string(rest), `"id":2`) {
			t.Errorf("the agent got %q: the request is never answered", rest)
		}
	})
}

// slowPipes is a backend whose writes of calls wait until held is closed.
type slowPipes struct {
	Backend
	held chan struct{}
}

func (s slowPipes) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "tools/call") {
		<-s.held
	}
	return s.Backend.Write(b)
}

// TestInputEndsBeforeRepeats ends the agent's input while requests are sent again: they are sent.
func TestInputEndsBeforeRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b1, e1 := newBackend()
		b2, e2 := newBackend()
		held := make(chan struct{})
		a := begin(t.Context(), b1, slowPipes{b2, held})
		greet(t, a, e1)
		fmt.Fprintln(a.say, `{"id":2,"method":"tools/call"}`)
		line(t, e1.in, `"tools/call"`)
		fmt.Fprintln(e1.out, `{"method":"notifications/biplane/end","params":{"read":2,"left":[]}}`)
		e1.out.Close()
		line(t, e2.in, `"initialize"`)
		fmt.Fprintln(e2.out, `{"id":1,"result":{}}`)
		line(t, e2.in, `"notifications/initialized"`)
		synctest.Wait()
		a.say.Close()
		for range 1000 {
			runtime.Gosched() // the relay may wait for a mutex, which synctest.Wait would wait for, too
		}
		close(held)
		text, err := e2.in.ReadString('\n')
		if !strings.Contains(text, "tools/call") {
			t.Errorf("the next backend got %q (%v): the request is lost", text, err)
		}
		fmt.Fprintln(e2.out, `{"id":2,"result":{}}`)
		line(t, a.hear, `"id":2`)
		e2.out.Close()
		<-a.over
	})
}

// TestDeadlyRequest loses one backend after another, killed, to the same request: the agent gets an
// error at last.
func TestDeadlyRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 20
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		n, asked := 0, 0
		connect := func(context.Context) (Backend, error) {
			if n++; n > most {
				return nil, errors.New("nobody answers")
			}
			b, e := newBackend()
			go func() {
				defer e.out.Close()
				for {
					text, err := e.in.ReadString('\n')
					switch {
					case err != nil:
						return
					case strings.Contains(text, `"initialize"`):
						fmt.Fprintln(e.out, `{"id":1,"result":{}}`)
					case strings.Contains(text, `"tools/list"`):
						asked++
						b.Close() // killed
						return
					}
				}
			}()
			return b, nil
		}
		go func() {
			_ = Run(t.Context(), Config{Connector: connects(connect)}, inR, outW)
			outW.Close()
		}()
		hear := bufio.NewReader(outR)
		fmt.Fprintln(inW, `{"id":1,"method":"initialize"}`)
		line(t, hear, `"result"`)
		fmt.Fprintln(inW, `{"method":"notifications/initialized"}`)
		fmt.Fprintln(inW, `{"id":2,"method":"tools/list"}`)
		text, err := hear.ReadString('\n')
		if err != nil || !strings.Contains(text, `"error"`) {
			t.Errorf("the request ended %d backends; the agent got %q (%v)", asked, text, err)
		}
		inW.Close()
	})
}

// TestNoRoomAtTheEnd loses a backend that did not accept a request, of which the relay has no copy:
// the agent hears that it had no effect.
func TestNoRoomAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b1, e1 := newBackend()
		b2, e2 := newBackend()
		a := begin(t.Context(), b1, b2)
		greet(t, a, e1)
		fmt.Fprintf(a.say, "{\"id\":2,\"method\":\"tools/call\",\"params\":%q}\n", strings.Repeat("x", keptBytes))
		line(t, e1.in, `"id":2`)
		fmt.Fprintln(e1.out, `{"method":"notifications/biplane/end","params":{"read":2,"left":[]}}`)
		e1.out.Close()
		line(t, e2.in, `"initialize"`)
		fmt.Fprintln(e2.out, `{"id":1,"result":{}}`)
		line(t, e2.in, `"notifications/initialized"`)
		text, err := a.hear.ReadString('\n')
		if err != nil || strings.Contains(text, "unknown whether") {
			t.Errorf("read %q (%v): it is known that the request took no effect", text, err)
		}
		a.say.Close()
		if rest, err := io.ReadAll(e2.in); len(rest) > 0 {
			t.Errorf("the next backend got %q (%v), want nothing", rest, err)
		}
		e2.out.Close()
		<-a.over
	})
}

// TestEagerHandshake loses a backend before it has answered the handshake, of which the agent has
// already sent the end: the next backend gets all of it, before the requests.
func TestEagerHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b1, e1 := newBackend()
		b2, e2 := newBackend()
		a := begin(t.Context(), b1, b2)
		for _, m := range []string{`{"id":1,"method":"initialize"}`, `{"method":"notifications/initialized"}`,
			`{"id":2,"method":"tools/list"}`} {
			fmt.Fprintln(a.say, m)
			line(t, e1.in, m)
		}
		e1.out.Close()
		line(t, e2.in, `"initialize"`)
		line(t, e2.in, `"notifications/initialized"`)
		line(t, e2.in, `"id":2`)
		a.say.Close()
		if rest, err := io.ReadAll(e2.in); len(rest) > 0 {
			t.Errorf("the backend got %q (%v), want nothing else", rest, err)
		}
		e2.out.Close()
		for range 2 { // the answers to both requests, in any order
			line(t, a.hear, "unknown whether it took effect")
		}
		<-a.over
	})
}
