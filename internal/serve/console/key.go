package console

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A keysData is the data of the page of API keys.
type keysData struct {
	Keys   []api.Key
	Groups []group
	Made   *api.Key // just created or rotated: the only time that its text is shown
	Roles  []string
}

// A group is a group with the names of the active keys in it.
type group struct {
	Name string
	Keys []string
}

// showKeys lists the API keys and their groups.
func showKeys(v *visit) error { return listKeys(v, nil) }

func listKeys(v *visit, made *api.Key) error {
	all, err := v.newClient().Keys().List(v.r.Context())
	if err != nil {
		return ownError(err)
	}
	slices.SortStableFunc(all, func(a, b api.Key) int { // active ones first
		return strings.Compare(strconv.FormatBool(a.State != api.KeyActive),
			strconv.FormatBool(b.State != api.KeyActive))
	})
	v.renderPage(http.StatusOK, "keys.html", keysData{Keys: all, Groups: groupsOf(all), Made: made,
		Roles: identity.Roles()})
	return nil
}

// groupsOf returns the groups of the active keys, by name.
func groupsOf(keys []api.Key) (out []group) {
	members := map[string][]string{}
	for _, k := range keys {
		if k.State != api.KeyActive {
			continue
		}
		for _, g := range k.Groups {
			if members[g] == nil {
				out = append(out, group{Name: g})
			}
			members[g] = append(members[g], k.Name)
		}
	}
	for i := range out {
		out[i].Keys = members[out[i].Name]
	}
	slices.SortFunc(out, func(a, b group) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// changeKeys creates, rotates or revokes a key.
func changeKeys(v *visit) error {
	f, c, ctx := v.r.PostForm, v.newClient(), v.r.Context()
	name := strings.TrimSpace(f.Get("name"))
	var made *api.Key
	var err error
	switch f.Get("action") {
	case "create":
		made, err = createKey(v, name)
	case "rotate":
		var hours int64
		if hours, err = readNumber(f.Get("hours"), "hours", 24*30); err == nil {
			made, err = c.Keys().Rotate(ctx, name, api.RotateRequest{GraceSeconds: hours * 3600})
		}
	case "revoke":
		if f.Get("confirm") != name {
			return tool.Errorf(tool.Invalid, "to revoke a key, write its name: nothing was changed")
		}
		_, err = c.Keys().Revoke(ctx, name)
	default:
		return tool.Errorf(tool.Invalid, "the form has no action: nothing was changed")
	}
	if err != nil {
		return ownError(err)
	}
	if made == nil {
		http.Redirect(v.w, v.r, "/keys", http.StatusSeeOther)
		return nil
	}
	return listKeys(v, made) // no redirect, since the key is shown only once
}

// createKey creates the key that a form describes.
func createKey(v *visit, name string) (*api.Key, error) {
	f := v.r.PostForm
	days, err := readNumber(f.Get("days"), "days", 3650)
	if err != nil {
		return nil, err
	}
	return v.newClient().Keys().Create(v.r.Context(), api.KeyRequest{Name: name,
		Person: strings.TrimSpace(f.Get("person")),
		Roles:  f["role"], Scopes: f["scope"], Tools: splitNames(f.Get("tools")), Groups: splitNames(f.Get("groups")),
		ExpiresSeconds: days * int64(24*time.Hour/time.Second)})
}

// splitNames splits a list that is separated by commas or line breaks.
func splitNames(s string) (out []string) {
	for _, name := range strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == '\n' || c == '\r' }) {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// readNumber reads a number of a form; an empty text is 0.
func readNumber(s, what string, most int64) (int64, error) {
	if s = strings.TrimSpace(s); s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, tool.Errorf(tool.Invalid, "%s must be a number from 0 to %d: nothing was changed", what, most)
	}
	return n, nil
}
