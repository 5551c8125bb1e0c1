package daemon

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	notices "github.com/biplane-dev/biplane/internal/control/notice"
	"github.com/biplane-dev/biplane/internal/tool"
)

// How long before something expires people are told, and how often that is checked.
const (
	noticeKeys         = 7 * 24 * time.Hour
	noticeCertificates = 14 * 24 * time.Hour
	noticeSandboxes    = 24 * time.Hour
	checkExpiries      = time.Hour
)

// expiries remembers what people were told about, so that each expiry is one notice. A notice has
// numbers instead of the names of keys and sandboxes, which may be those of people.
type expiries struct {
	mu      sync.Mutex
	told    map[string]bool   // by what expires, and when
	signIns map[string]string // the last state of each upstream
}

func newExpiries() *expiries {
	return &expiries{told: map[string]bool{}, signIns: map[string]string{}}
}

// takeNew returns how many of the expiries were in no notice, and forgets the others: what is
// no longer about to expire was renewed, or is gone.
func (e *expiries) takeNew(kind string, all []string) (fresh int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := map[string]bool{}
	for _, what := range all {
		key := kind + " " + what
		if now[key] = true; !e.told[key] {
			fresh++
		}
	}
	for key := range e.told {
		if strings.HasPrefix(key, kind+" ") && !now[key] {
			delete(e.told, key)
		}
	}
	for key := range now {
		e.told[key] = true
	}
	return fresh
}

// lostSignIn reports whether an upstream that was ready now needs a sign-in.
func (e *expiries) lostSignIn(upstream, state string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.signIns[upstream]
	e.signIns[upstream] = state
	return state == string(tool.NeedsSignIn) && was == string(tool.Ready)
}

// watchExpiries notifies people of what expires soon, until ctx is done.
func (d people) watchExpiries(ctx context.Context) {
	tick := time.NewTicker(checkExpiries)
	defer tick.Stop()
	for {
		d.noticeExpiries(ctx, time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// noticeExpiries notifies people of what expires soon and was not in an earlier notice.
func (d people) noticeExpiries(ctx context.Context, now time.Time) {
	say := func(kind string, all []string, one, page, command string) {
		n := d.servers.expiries.takeNew(kind, all)
		if n == 0 {
			return
		}
		d.servers.notices.AddNotice(notices.Notice{Kind: notices.Expiring, Subject: text.Count(n, one),
			Link: d.noticePage(page), Command: command})
	}
	say("key", d.listEndingKeys(now), "API key", "/keys", "biplane keys list")
	say("certificate", d.listEndingCertificates(now), "certificate of the server", "/", "biplane doctor")
	if boxes, err := d.sandboxes.own.ListEnding(ctx, now.Add(noticeSandboxes), noticeSandboxes); err != nil {
		d.log.Warn("sandboxes that end soon not listed", "err", err)
	} else {
		say("sandbox", boxes, "sandbox", "/sessions", "biplane sandboxes list")
	}
}

// listEndingKeys returns the active API keys that expire soon. Keys with a short life are not among
// them.
func (d people) listEndingKeys(now time.Time) (out []string) {
	if d.keys == nil {
		return nil
	}
	for _, k := range d.keys.List() {
		if k.Expires.IsZero() || !k.Revoked.IsZero() || k.Changed || !k.Expires.After(now) ||
			k.Expires.Sub(now) > noticeKeys || k.Expires.Sub(k.Created) <= noticeKeys {
			continue
		}
		out = append(out, k.ID+" "+k.Expires.UTC().Format(time.RFC3339))
	}
	return out
}

// listEndingCertificates returns the server's certificate if it expires soon or has expired.
func (d people) listEndingCertificates(now time.Time) []string {
	file := d.cfg.Settings.TLS.Cert
	if file == "" || d.servers.tcp == nil {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil // the listener logs that
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || c.NotAfter.Sub(now) > noticeCertificates {
		return nil
	}
	return []string{c.NotAfter.UTC().Format(time.RFC3339)}
}
