package limit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestHosts checks that rules for hosts count each host's requests and bytes, and that their errors
// name the budget.
func TestHosts(t *testing.T) {
	clock := start()
	l := limiter(t, clock, nil,
		limit.Rule{What: limit.Calls, Max: 2, Window: time.Hour, Per: limit.PerHost, Hosts: "*.test"},
		limit.Rule{What: limit.Ingress, Max: 10_000, Window: time.Hour, Hosts: "big.test"})
	c := &tool.Call{Principal: tool.Principal{ID: "ann"}, Tool: &tool.Tool{Upstream: tool.Own, Name: "connect"}}
	connect := func(host string) error {
		done, err := l.Take(limit.WithHost(t.Context(), host), c, false)
		if err == nil {
			done(limit.Spent{})
		}
		return err
	}
	for _, x := range []struct{ host, want string }{
		{"a.test", ""}, {"a.test", ""},
		{"a.test", "over the limit of 2 calls in 1 h with *.test for each host, used up for a.test"},
		{"b.test", ""}, {"c.example", ""}, {"c.example", ""}, {"c.example", ""},
	} {
		err := connect(x.host)
		if (err != nil) != (x.want != "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.host, err, x.want)
		}
	}
	if m := l.MeterCall(limit.WithHost(t.Context(), "a.test"), c); m != nil {
		t.Error("bytes of a host without a budget are counted")
	}
	m := l.MeterCall(limit.WithHost(t.Context(), "big.test"), c)
	if m == nil {
		t.Fatal("bytes of big.test are not counted")
	}
	if err := m.CountBytes(1<<30, 5000); err != nil { // what is sent has no budget
		t.Errorf("within the budget: %v", err)
	}
	const want = "over the limit of 10000 bytes received in 1 h with big.test for each principal, used up by ann"
	if err := m.CountBytes(0, 6000); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("over the budget: %v, want %q", err, want)
	}
	if err := m.CountBytes(0, 6000); err == nil || tool.AsError(err).Unsent {
		t.Errorf("over the budget: %v, want an error of a call that was sent", err)
	}
	m.EndCount()
	if err := connect("big.test"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the next connection: %v, want %q", err, want)
	}
	clock.Advance(time.Hour)
	if err := connect("big.test"); err != nil {
		t.Errorf("after the window: %v", err)
	}
}

// TestDeadHost checks that a host that doesn't answer pauses only the calls to it, and that a
// program that names ever more hosts neither uses memory without bound nor resets upstreams.
func TestDeadHost(t *testing.T) {
	l := limiter(t, start(), nil)
	sent := 0
	try := func(c *tool.Call, host string, err error) error {
		sent++
		c.Arguments = fmt.Appendf(nil, `{"i":%d}`, sent)
		_, err = l.Guard(limit.WithHost(t.Context(), host), c, func() (*tool.Result, error) {
			return tool.Text(false, "ok"), err
		})
		return err
	}
	connect := func(host string, err error) error {
		return try(call("ann", tool.Own+".connect"), host, err)
	}
	dead := tool.Errorf(tool.Unavailable, "no answer")
	for range 8 {
		connect("dead.test", dead)
		try(call("ann", "shop.get"), "", dead)
	}
	const want = "biplane.connect was not sent: the host dead.test failed to answer"
	err := connect("dead.test", nil)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the host that doesn't answer: %v", err)
	}
	if err := connect("live.test", nil); err != nil {
		t.Errorf("another host: %v", err)
	}
	for i := range 10_000 {
		connect(fmt.Sprintf("h%d.test", i), dead)
	}
	if err := try(call("ann", "shop.get"), "", nil); err == nil || !strings.Contains(err.Error(), "was not sent") {
		t.Errorf("the upstream that doesn't answer, after many dead hosts: %v", err)
	}
	if n := l.CountCircuits(); n > 4096 {
		t.Errorf("%d hosts are remembered, want at most 4,096", n)
	}
}
