package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/biplane-dev/biplane/internal/tool"
)

func digestText(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// PlanUninstall returns the change that removes Biplane from a client's file, and restores the
// servers that were taken out. If the file is as PlanInstall left it, it becomes what it was, byte
// for byte. Otherwise all later changes stay.
func (t Target) PlanUninstall() (*Change, error) {
	r, err := t.loadRecord()
	if err != nil {
		return nil, err
	}
	text, servers, err := t.loadFile()
	if err != nil {
		if r != nil && r.Backup != "" {
			err = tool.Errorf(tool.Invalid, "%s; the file as it was before Biplane is %s", tool.AsError(err).Msg,
				t.pathBeside(r.Backup))
		}
		return nil, err
	}
	c := &Change{Target: t, Before: text, After: text, masker: maskEntries(t.place.format, servers)}
	if text == nil {
		if r != nil && r.Backup != "" {
			return nil, tool.Errorf(tool.NotFound, "%s is gone: the file as it was before Biplane is %s", t.File,
				t.pathBeside(r.Backup))
		}
		return c, nil
	}
	if r != nil && r.After == digestText(text) {
		if done, err := c.restoreWhole(r); err != nil || done {
			return c, err
		}
	}
	return c, c.restoreServers(r, servers)
}

// pathBeside returns the path of a file beside the client's.
func (t *Target) pathBeside(name string) string { return filepath.Join(filepath.Dir(t.File), name) }

// restoreWhole restores the original file from its copy, or removes a file that Biplane created. It
// reports whether that was possible.
func (c *Change) restoreWhole(r *record) (bool, error) {
	for _, s := range r.Taken {
		c.Back = append(c.Back, s.Name)
	}
	if r.Created {
		if len(r.Taken) == 0 {
			c.After = nil
			return true, nil
		}
		c.Back = nil
		return false, nil
	}
	if r.Before == "" {
		c.Back = nil
		return false, nil
	}
	text, err := os.ReadFile(c.pathBeside(r.Backup))
	if err != nil || digestText(text) != r.Before {
		c.Back = nil // the record has the servers, too
		return false, nil
	}
	c.After, c.spent = text, c.pathBeside(r.Backup)
	return true, c.addSecrets(text)
}

// addSecrets sets the secrets that a diff hides to those of another text of the file.
func (c *Change) addSecrets(text []byte) error {
	d, err := c.place.format.decodeDocument(text)
	if err != nil {
		return c.refuseFile(err)
	}
	servers := d.Servers
	if c.place.format != vscode {
		servers = c.place.listServers(d, "")
	}
	c.masker = maskEntries(c.place.format, servers)
	return nil
}

// restoreServers removes Biplane from the text, and adds the servers of a record that the text
// doesn't have.
func (c *Change) restoreServers(r *record, servers serverTable) error {
	f, err := c.openText(c.Before)
	if err != nil {
		return c.refuseFile(err)
	}
	own := c.findOwn(servers)
	if own != "" {
		if _, err := f.removeServer(own); err != nil {
			return c.refuseFile(err)
		}
	}
	if r == nil {
		r = &record{}
	}
	for _, s := range r.Taken {
		if now, ok := servers[s.Name]; ok && s.Name != own {
			if !c.isTaken(s, now) {
				c.Left = append(c.Left, Skipped{Source{c.Client, c.File, s.Name},
					"the file has another server of this name, which stays; the one that was taken out is in " +
						c.pathBeside(s.Backup)})
			}
			continue
		}
		if err := f.restoreServer(s.Name, s.Text); err != nil {
			return c.refuseFile(fmt.Errorf("%s can't be restored: %w; it is in %s", s.Name, err,
				c.pathBeside(s.Backup)))
		}
		c.Back = append(c.Back, s.Name)
	}
	if own == "" && len(c.Back) == 0 {
		return nil
	}
	if c.After, err = f.packText(); err != nil {
		return c.refuseFile(err)
	}
	return c.addSecrets(c.After)
}

// isTaken reports whether a server is the one that was taken out.
func (c *Change) isTaken(s takenServer, now json.RawMessage) bool {
	d, err := c.place.format.decodeDocument([]byte(c.wrapText(s.Text)))
	if err != nil {
		return false
	}
	servers := d.Servers
	if c.place.format != vscode {
		servers = c.place.listServers(d, "")
	}
	return equalJSON(servers[s.Name], now)
}

// wrapText returns a text of the client's file that has only the server with a text.
func (c *Change) wrapText(text string) string {
	if c.place.format.isTOML() {
		return text
	}
	if c.place.format == goose {
		return gooseSection + ":\n" + shiftLines(text, 2)
	}
	for i := len(c.section) - 1; i >= 0; i-- {
		name, err := json.Marshal(c.section[i])
		if err != nil {
			return ""
		}
		text = "{" + string(name) + ":" + text + "}"
	}
	return text
}
