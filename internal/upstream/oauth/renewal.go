package oauth

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	early       = 30 * time.Second       // a token is refreshed this long before it expires
	claimTime   = 40 * time.Second       // time for one process to renew a sign-in; longer than an answer may take
	claimPause  = 100 * time.Millisecond // between checks whether another process has renewed it
	renewPause  = time.Minute            // between renewals caused by a server's refusals
	youth       = 10 * time.Second       // minimum time that a renewed token is used, however short its lifetime
	failPause   = 5 * time.Second        // after a failed renewal, for all callers
	renewBounds = 2 * answerTime         // for one renewal
	storeTime   = 5 * time.Second        // for the store, if the caller sets no limit
)

// A storedGrant is a grant as it is stored.
type storedGrant struct {
	grant
	Server  string    `json:"server"`           // the address that its tokens may be sent to
	Claimed time.Time `json:"claimed,omitzero"` // until then, only one process renews it
	Wants   []string  `json:"wants,omitempty"`  // scopes that the server has found missing since

	revision string
}

// isUsable reports whether the access token can be used.
func (h *storedGrant) isUsable(now time.Time) bool {
	return h.Access != "" && (h.Expires.IsZero() || now.Add(early).Before(h.Expires))
}

// isClaimed reports whether another process is renewing the sign-in. A claim further in the future
// than possible comes from another clock, and is ignored.
func (c *Client) isClaimed(h *storedGrant, now time.Time) bool {
	wait := h.Claimed.Sub(now)
	return !c.cfg.Alone && wait > 0 && wait <= claimTime
}

// loadSignIn reads the sign-in from the store.
func (c *Client) loadSignIn(ctx context.Context) (storedGrant, error) {
	c.mu.Lock()
	changes := c.changes
	c.mu.Unlock()
	text, revision, err := c.cfg.Store.Load(ctx, c.cfg.Name, c.resourceAddress())
	if err != nil {
		return storedGrant{}, err
	}
	var h storedGrant
	if revision != "" {
		if json.Unmarshal(text, &h) != nil || h.Server != c.resourceAddress() {
			return storedGrant{}, tool.Errorf(tool.Conflict,
				"the sign-in to upstream %q was stored by another version: sign in again", c.cfg.Name)
		}
	}
	h.revision = revision
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.Access != c.held.Access {
		c.rememberSecrets(h.Access, h.Refresh, h.Client.Secret)
	}
	if c.changes == changes {
		c.holdSignIn(h)
	}
	return h, nil
}

// saveSignIn stores the sign-in, replacing the state it was derived from.
func (c *Client) saveSignIn(ctx context.Context, h *storedGrant) error {
	h.Server = c.resourceAddress()
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	revision, err := c.cfg.Store.Save(ctx, c.cfg.Name, h.Server, text, h.revision)
	if err != nil {
		return err
	}
	h.revision = revision
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rememberSecrets(h.Access, h.Refresh, h.Client.Secret)
	c.holdSignIn(*h)
	c.changes++
	return nil
}

// holdSignIn makes h the current sign-in, and masks its credentials as long as it is. c.mu must be
// held.
func (c *Client) holdSignIn(h storedGrant) {
	holder := strings.TrimSpace(c.cfg.Name + " " + c.resourceAddress() + " " + c.cfg.Owner)
	c.cfg.Mask.Hold(holder, h.Access, h.Refresh, h.Client.Secret)
	c.held = h
}

// renewToken returns a valid access token: the stored one, or a new one. force means that the
// server refused the token, not only that it is about to expire.
func (c *Client) renewToken(ctx context.Context, force bool) (string, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", tool.AsError(ctx.Err())
	}
	for {
		h, err := c.loadSignIn(ctx)
		if tool.AsError(err) != nil && tool.AsError(err).Kind == tool.Conflict {
			c.log.Warn("not signed in", "err", err)
			return "", nil
		} else if err != nil {
			return "", err
		}
		c.mu.Lock()
		refused, now := c.refused, time.Now()
		age, since, failed := now.Sub(c.renewed), now.Sub(c.forced), c.failed
		if now.Sub(c.failedAt) >= failPause {
			failed = nil
		}
		c.mu.Unlock()
		rest := leftoverToken(&h, refused, now)
		switch {
		case h.isUsable(now) && h.Access != refused:
			return h.Access, nil
		case h.Refresh == "", rest != "" && (age < youth || failed != nil):
			return rest, nil
		case h.Access == refused && !force, force && since < renewPause:
			return "", nil
		case failed != nil:
			return "", failed
		}
		if c.isClaimed(&h, now) {
			if !sleepFor(ctx, claimPause) {
				return "", tool.AsError(ctx.Err())
			}
			continue
		}
		token, again, err := c.refreshTokens(ctx, h, refused)
		if !again {
			return token, err
		}
	}
}

// storeScopes stores missing scopes. It skips that while the sign-in is being renewed, since the
// new tokens must not be lost to a conflict.
func (c *Client) storeScopes(ctx context.Context, scopes []string) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	default:
		return nil
	}
	h, err := c.loadSignIn(ctx)
	if err != nil || h.revision == "" || c.isClaimed(&h, time.Now()) {
		return err
	}
	all := cleanScopes(slices.Concat(h.Wants, scopes))
	if len(all) == len(h.Wants) {
		return nil
	}
	h.Wants = all
	if err := c.saveSignIn(ctx, &h); err != nil && !isConflict(err) {
		return err
	}
	return nil
}

// leftoverToken returns a token that is about to expire and can't be refreshed, as long as it is
// valid.
func leftoverToken(h *storedGrant, refused string, now time.Time) string {
	if h.Access == "" || h.Access == refused || !h.Expires.IsZero() && !now.Before(h.Expires) {
		return ""
	}
	return h.Access
}

// refreshTokens claims the sign-in, refreshes its tokens and stores them. again means that another
// process changed it meanwhile. Once the request is sent, refreshTokens ignores the end of ctx,
// since the answer may be the only copy of the next refresh token.
func (c *Client) refreshTokens(ctx context.Context, h storedGrant, refused string) (token string,
	again bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewBounds)
	defer cancel()
	before := h.Access
	h.Claimed = time.Now().Add(claimTime).UTC()
	if err := c.saveSignIn(ctx, &h); err != nil {
		return "", isConflict(err), err
	}
	rerr := c.web.refreshGrant(ctx, &h.grant)
	h.Claimed = time.Time{}
	if isFinal(rerr) {
		c.log.Warn("sign-in no longer renewable", "err", c.Redact(rerr.Error()))
		h.Access, h.Refresh = "", ""
	}
	if err := c.saveSignIn(ctx, &h); err != nil {
		if rerr == nil && isConflict(err) {
			c.revokeLate(ctx, &h.grant)
		}
		return "", isConflict(err), err
	}
	if rerr != nil && !isFinal(rerr) {
		rerr = tool.Errorf(tool.Unavailable, "the sign-in can't be renewed now: %w", rerr)
	}
	c.mu.Lock()
	c.renewed = time.Now()
	if before == refused {
		c.forced = c.renewed
	}
	c.failed, c.failedAt = rerr, c.renewed
	c.mu.Unlock()
	switch {
	case rerr == nil:
		c.log.Info("sign-in renewed", "expires", h.Expires)
		return h.Access, false, nil
	case isFinal(rerr):
		return "", false, nil
	}
	if t := leftoverToken(&h, refused, time.Now()); t != "" {
		return t, false, nil
	}
	return "", false, rerr
}

// revokeLate revokes new tokens that came too late: a user signed out meanwhile, which revoked only
// the old ones.
func (c *Client) revokeLate(ctx context.Context, g *grant) {
	if h, err := c.loadSignIn(ctx); err != nil || h.revision != "" || g.Revocation == "" {
		return
	}
	if err := c.web.revokeTokens(ctx, g); err != nil {
		c.log.Warn("tokens not revoked", "err", c.Redact(err.Error()))
	}
}

func isConflict(err error) bool { return tool.AsError(err).Kind == tool.Conflict }

// sleepFor waits for d. It returns false if ctx ended first.
func sleepFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
