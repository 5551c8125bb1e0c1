package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestProgramsOfASessionKeepTheirOrder checks that programs of one session run in the order in
// which they were sent, whenever they arrive at the executor. A program that never arrives there
// blocks no other.
func TestProgramsOfASessionKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		var mu sync.Mutex
		came := map[string][]string{}
		d := newDoor()
		d.handle("biplane.execute", func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			var i int
			var session string
			if _, err := fmt.Sscanf(string(c.Arguments), `{"session":%q,"code":"%d"}`, &session, &i); err != nil {
				return nil, err
			}
			time.Sleep(time.Duration(n-i) * time.Second) // the programs sent last arrive first
			switch {
			case i%10 == 3:
				return nil, tool.Errorf(tool.Denied, "no")
			case i%10 == 4:
				leave := c.Place.Take() // leaves before its turn
				leave()
				leave()
				return tool.Text(false, "gone"), nil
			}
			leave := c.Place.Take()
			<-c.Place.Come
			mu.Lock()
			came[session] = append(came[session], fmt.Sprint(i))
			mu.Unlock()
			leave()
			return tool.Text(false, "done"), nil
		})
		in, want := hello, map[string]string{}
		for i := range n {
			session := []string{"a", "b"}[i/2%2]
			meta := ""
			if i%3 == 0 { // a client can't choose its own place in the order
				meta = fmt.Sprintf(`,"_meta":{"x":1,"biplane.dev/request":%d}`, n)
			}
			in += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute",`+
				`"arguments":{"session":%q,"code":"%d"}%s}}`+"\n", i+1, session, i, meta)
			if i%10 != 3 && i%10 != 4 {
				want[session] += fmt.Sprint(i) + " "
			}
		}
		limits := config(d, mcpserver.Code)
		limits.Limits.Drain = time.Hour
		if err := mcpserver.New(limits).ServeStdio(t.Context(), strings.NewReader(in), io.Discard); err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		for session, list := range want {
			if got := strings.Join(came[session], " ") + " "; got != list {
				t.Errorf("session %s: %s\nwant %s", session, got, list)
			}
		}
	})
}

// TestNoPlaceWithoutASession checks that a program without a session has no place.
func TestNoPlaceWithoutASession(t *testing.T) {
	d := newDoor()
	d.handle("biplane.execute", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Place != nil {
			t.Errorf("%s has a place", c.Arguments)
		}
		return tool.Text(false, "done"), nil
	})
	in := hello
	for i, args := range []string{`{"code":"1"}`, `{"code":"1","session":""}`, `{"code":"1","session":5}`} {
		in += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute",`+
			`"_meta":{"biplane.dev/request":%d},"arguments":%s}}`+"\n", i+1, i+1, args)
	}
	if err := mcpserver.New(config(d, mcpserver.Code)).ServeStdio(t.Context(), strings.NewReader(in),
		io.Discard); err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
}
