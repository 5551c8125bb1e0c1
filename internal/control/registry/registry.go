// Package registry keeps the list of MCP servers that a team approves.
//
// A List is a signed document with a version. OpenList reads it from a file or an address, checks
// its signature, and keeps the last accepted list in the data folder: an older one is never
// accepted again, and start-up works offline. Each entry has a server in the format of the public
// MCP registry (server.json). Server.ConfigureServer creates a configuration entry from it, and
// List.CheckRun reports whether what a configuration runs is approved.
//
// Descriptions of servers are not trusted. Sizes are limited, texts from them never refer to
// variables or secrets, and arguments that change what is run are refused unless the team signed
// them or the user accepts them.
package registry

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxList = 4 << 20 // bytes
	// fresh is how long an accepted list is used without reading its address again.
	fresh = time.Hour
	// fetchTime is how long reading an address may take.
	fetchTime = 10 * time.Second
)

// A Source says where a list is, and who signs it.
type Source struct {
	Place    string              // an https address, or the absolute path of a file
	Keys     []ed25519.PublicKey // the signature of one of them is required
	Unsigned bool                // the list is a file that needs no signature
	Folder   string              // for the accepted list; empty: it is not kept
	Refresh  bool                // read the address even if the accepted list is fresh
	Clock    *wallclock.Clock
}

// An Accepted is a list that was accepted.
type Accepted struct {
	*List
	Place   string
	Signer  string    // the key that signed it; empty if it is unsigned
	Checked time.Time // when its place was last read
	// Problem says why the list is the last accepted one, if its place could not be read.
	Problem string
}

// OpenList reads the list and checks it.
func OpenList(ctx context.Context, s Source) (*Accepted, error) {
	if s.Unsigned {
		return s.openPlain()
	}
	now := s.Clock.Now()
	kept, err := s.loadKept()
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "the accepted list of approved servers: %w", err)
	}
	remote := IsAddress(s.Place)
	if age := now.Sub(keptTime(kept)); remote && !s.Refresh && kept != nil && age >= 0 && age < fresh {
		return kept.accepted, kept.accepted.checkExpiry(now)
	}
	got, err := s.readList(ctx, kept)
	if err != nil && (!remote || kept == nil) {
		return nil, err
	}
	if err != nil {
		kept.accepted.Problem = tool.AsError(err).Error()
		return kept.accepted, kept.accepted.checkExpiry(now)
	}
	got.accepted.Checked = now
	if err := got.accepted.checkExpiry(now); err != nil {
		return nil, err
	}
	if err := s.saveKept(got); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "keep the accepted list of approved servers: %w", err)
	}
	return got.accepted, nil
}

func keptTime(k *keptList) time.Time {
	if k == nil {
		return time.Time{}
	}
	return k.accepted.Checked
}

// readList reads the list at its place, and compares it with the one that was accepted last.
func (s Source) readList(ctx context.Context, kept *keptList) (*keptList, error) {
	raw, err := s.readPlace(ctx)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "the list of approved servers %s: %w", ShowPlace(s.Place), err)
	}
	got, err := s.verifyText(raw)
	if err != nil {
		return nil, tool.Errorf(tool.Denied, "the list of approved servers %s is refused: %w", ShowPlace(s.Place), err)
	}
	if kept == nil {
		return got, nil
	}
	switch was := kept.accepted.Version; {
	case got.accepted.Version < was:
		return nil, tool.Errorf(tool.Denied, "the list of approved servers %s is refused: it has version %d, and "+
			"version %d was accepted before", ShowPlace(s.Place), got.accepted.Version, was)
	case got.accepted.Version == was && got.digest != kept.digest:
		return nil, tool.Errorf(tool.Denied,
			"the list of approved servers %s is refused: it differs from the accepted "+
				"one of the same version %d: a changed list needs a higher version", ShowPlace(s.Place), was)
	}
	return got, nil
}

func (s Source) readPlace(ctx context.Context) ([]byte, error) {
	if !IsAddress(s.Place) {
		return readFile(s.Place, maxList)
	}
	u, err := ParseAddress(s.Place)
	if err != nil {
		return nil, err
	}
	return newFetcher(u).fetchText(ctx, u, maxList)
}

// openPlain reads a list from a file that needs no signature.
func (s Source) openPlain() (*Accepted, error) {
	if IsAddress(s.Place) {
		return nil, tool.Errorf(tool.Invalid, "only a list in a file can be unsigned")
	}
	raw, err := readFile(s.Place, maxList)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "the list of approved servers: %w", err)
	}
	d, err := parseDocument(raw)
	if err == nil {
		var list *List
		if list, err = d.decodeList(); err == nil {
			now := s.Clock.Now()
			a := &Accepted{List: list, Place: s.Place, Checked: now}
			return a, a.checkExpiry(now)
		}
	}
	return nil, tool.Errorf(tool.Invalid, "the list of approved servers %s: %w", s.Place, err)
}

// checkExpiry returns an error if the list is no longer valid.
func (a *Accepted) checkExpiry(now time.Time) error {
	if a.Expires.IsZero() || now.Before(a.Expires) {
		return nil
	}
	why := ""
	if a.Problem != "" {
		why = "; no newer one was accepted: " + a.Problem
	}
	return tool.Errorf(tool.Denied, "the list of approved servers %s expired on %s%s", ShowPlace(a.Place),
		a.Expires.UTC().Format(time.DateOnly), why)
}

// DescribeList returns the list's name, place and version for messages.
func (a *Accepted) DescribeList() string {
	return fmt.Sprintf("%s, version %d, of %s", a.Name, a.Version, ShowPlace(a.Place))
}

// IsAddress reports whether a place is an address rather than a file.
func IsAddress(place string) bool {
	u, err := url.Parse(place)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http")
}

// ShowPlace returns a place without credentials.
func ShowPlace(place string) string {
	u, err := url.Parse(place)
	if err != nil || !IsAddress(place) {
		return place
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// readFile reads a regular file of at most the given size.
func readFile(path string, most int) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, most)
}

func readAtMost(r io.Reader, most int) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(raw) > most {
		return nil, fmt.Errorf("it has more than %d MiB", most>>20)
	}
	return raw, err
}
