package clients

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
)

// maxUnknown is the maximum number of keys of one server that are reported.
const maxUnknown = 20

// harmless lists keys that change nothing about a server that Biplane starts: how a client shows
// it, which calls it makes without asking, where it came from.
var harmless = []string{"alwaysAllow", "autoApprove", "trust", "description", "displayName", "icon", "name", "note",
	"source", "gallery", "version", "dev", "watchPaths", "startup_timeout_sec", "startup_timeout_ms", "startupTimeout",
	"required"}

// findUnknown finds the keys of an entry that are not carried over.
func (e *entry) findUnknown(raw json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[entry]()) {
		known[f.Tag.Get("json")] = true
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if !known[k] && !slices.Contains(harmless, k) && string(all[k]) != "null" && len(e.unknown) < maxUnknown {
			e.unknown = append(e.unknown, text.Clip(k, 60))
		}
	}
	return nil
}

// An oauthEntry is the sign-in to a server as clients write it, each with some of the keys.
type oauthEntry struct {
	Enabled      *bool    `json:"enabled"`
	ClientID     string   `json:"clientId"`
	ClientSecret string   `json:"clientSecret"`
	Scopes       []string `json:"scopes"`
	CallbackPort int      `json:"callbackPort"`

	CursorID     string `json:"CLIENT_ID"`
	CursorSecret string `json:"CLIENT_SECRET"`
}

// convertSignIn adds the sign-in of an entry to d. It returns the parts that it doesn't carry over.
func (w *rewriter) convertSignIn(d *definition, e *entry) (lost []string) {
	for _, o := range []struct {
		name string
		raw  json.RawMessage
	}{{"oauth", e.OAuth}, {"auth", e.Auth}} {
		if len(o.raw) == 0 || string(o.raw) == "null" {
			continue
		}
		found, rest := w.readSignIn(o.name, o.raw)
		switch lost = append(lost, rest...); {
		case found == nil:
		case d.OAuth != nil, d.URL == "", hasAuthorization(d.Headers): // it would be an error
			lost = append(lost, o.name)
		default:
			d.OAuth = found
		}
	}
	return lost
}

// readSignIn reads the settings of a sign-in. They are nil if signing in needs none.
func (w *rewriter) readSignIn(what string, raw json.RawMessage) (o *config.OAuthEntry, lost []string) {
	var e oauthEntry
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || json.Unmarshal(raw, &e) != nil {
		return nil, []string{what}
	}
	known := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[oauthEntry]()) {
		known[f.Tag.Get("json")] = true
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if !known[k] && len(lost) < maxUnknown {
			lost = append(lost, what+"."+text.Clip(k, 60))
		}
	}
	if e.Enabled != nil && !*e.Enabled {
		return nil, lost
	}
	o = &config.OAuthEntry{ClientID: w.rewriteText(cmp.Or(e.ClientID, e.CursorID)),
		ClientSecret: w.rewriteText(cmp.Or(e.ClientSecret, e.CursorSecret)), Scopes: w.rewriteList(e.Scopes),
		RedirectPort: e.CallbackPort}
	if o.ClientID == "" && o.ClientSecret == "" && len(o.Scopes) == 0 && o.RedirectPort == 0 {
		return nil, lost
	}
	return o, lost
}

func hasAuthorization(headers map[string]string) bool {
	for k := range headers {
		if http.CanonicalHeaderKey(k) == "Authorization" {
			return true
		}
	}
	return false
}

// disableEntry returns an entry that is disabled.
func disableEntry(raw json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || all == nil {
		return raw // it is reported later
	}
	all["disabled"] = json.RawMessage("true")
	out, err := json.Marshal(all)
	if err != nil {
		return raw
	}
	return out
}
