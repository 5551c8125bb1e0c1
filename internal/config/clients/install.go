package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Installation says how Biplane is put into a client.
type Installation struct {
	Command string   // the program that the client starts
	Args    []string // its arguments
	Keep    bool     // leave the client's other servers
}

// A Change is a change of a client's file that has not been made yet.
type Change struct {
	Target
	Before []byte // nil: the file doesn't exist
	After  []byte // nil: the file is to be deleted
	Taken  []string
	Back   []string  // servers that are restored
	Left   []Skipped // servers that stay, with the reason
	Import *Import   // the servers that are taken out

	record *record      // for PlanUninstall; nil: the stored record is deleted
	backup string       // the file with the text before; empty: none
	spent  string       // a backup that is no longer needed
	masker *mask.Masker // has the secrets that a diff hides
}

// A record describes the servers of a file before Biplane was put into it.
type record struct {
	Format  int           `json:"format"` // 1
	Client  string        `json:"client"`
	Created bool          `json:"created,omitempty"` // the file didn't exist
	Backup  string        `json:"backup,omitempty"`  // the name of the copy
	Before  string        `json:"before,omitempty"`  // SHA-256 of the copy; empty: it was not the whole change
	After   string        `json:"after,omitempty"`   // SHA-256 of the text that was written
	Taken   []takenServer `json:"taken"`
}

// A takenServer is a server that was removed from a client's file, with its original text.
type takenServer struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	Backup string `json:"backup"` // the name of the copy that has it
}

func (t *Target) recordFile() string {
	if t.Client == "Continue" { // it reads each JSON file in the folder
		return t.File + ".biplane"
	}
	return t.File + ".biplane.json"
}

// maxRecord is the maximum size of a record.
const maxRecord = 16 << 20

// loadRecord returns the record of a file; nil if there is none.
func (t *Target) loadRecord() (*record, error) {
	info, err := os.Stat(t.recordFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	r := &record{}
	if info.Size() > maxRecord {
		return nil, tool.Errorf(tool.Limit, "%s has more than %d bytes", t.recordFile(), maxRecord)
	}
	text, err := os.ReadFile(t.recordFile())
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil || r.Format != 1 || r.Backup != filepath.Base(r.Backup) && r.Backup != "" {
		return nil, tool.Errorf(tool.Invalid, "%s is not a record of this version of Biplane: %w", t.recordFile(), err)
	}
	return r, nil
}

// loadFile returns the text of the client's file, nil if it doesn't exist, and its servers.
func (t *Target) loadFile() ([]byte, serverTable, error) {
	text, err := t.place.loadText()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	var d document
	if err == nil {
		d, err = t.place.format.decodeDocument(text)
	}
	if err != nil {
		return nil, nil, tool.Errorf(tool.Invalid, "%s of %s can't be read, and was not changed: %s", t.File, t.Client,
			err.Error())
	}
	if t.place.format == vscode {
		return text, d.Servers, nil
	}
	return text, t.place.listServers(d, ""), nil
}

// isBiplane reports whether an entry starts Biplane.
func (t *Target) isBiplane(raw json.RawMessage) bool {
	raw, err := t.place.format.normalizeEntry(raw)
	if err != nil {
		return false
	}
	e, err := decodeEntry(raw)
	if err != nil {
		return false
	}
	name := strings.TrimSuffix(filepath.Base(filepath.FromSlash(e.Command)), ".exe")
	return name == tool.Own || len(e.Args) > 1 && e.Args[0] == "mcp" && e.Args[1] == "--config"
}

// PlanInstall returns the change that puts Biplane into a client's file, in place of its servers.
// env looks up the variables that servers refer to.
func (t Target) PlanInstall(in Installation, m Machine, env func(string) (string, bool)) (*Change, error) {
	text, servers, err := t.loadFile()
	if err != nil {
		return nil, err
	}
	before, err := t.loadRecord()
	if err != nil {
		return nil, err
	}
	c := &Change{Target: t, Before: text, masker: maskEntries(t.place.format, servers)}
	own := t.findOwn(servers)
	others := maps.Clone(servers)
	if own != "" {
		delete(others, own)
	}
	c.Import = t.place.importServers(others, m, env)
	if own == "" { // of an installation that was taken out by hand, or did not finish
		before = nil
	}
	entry, err := t.place.format.writeEntry(in.Command, in.Args)
	if err != nil {
		return nil, err
	}
	take := t.chooseServers(c, own, in.Keep)
	if _, taken := servers[tool.Own]; taken && own != tool.Own && !slices.Contains(take, tool.Own) {
		return nil, tool.Errorf(tool.Conflict, "%s has another server with the name %s: rename it first", t.File,
			tool.Own)
	}
	if len(c.Taken) == 0 && own == tool.Own && equalJSON(servers[own], entry) {
		c.After, c.record = text, before
		return c, nil
	}
	if err := c.writeInstallation(take, entry, before); err != nil {
		return nil, err
	}
	return c, nil
}

// findOwn returns the name of the entry that starts Biplane, or "".
func (t *Target) findOwn(servers serverTable) string {
	if t.isBiplane(servers[tool.Own]) {
		return tool.Own
	}
	return ""
}

// chooseServers sets which servers are taken out and which stay. It returns the names to remove,
// with Biplane's earlier entry.
func (t *Target) chooseServers(c *Change, own string, keep bool) []string {
	c.Left = append(c.Left, c.Import.Skipped...)
	for _, s := range c.Import.Servers {
		for _, o := range s.Sources {
			if keep {
				c.Left = append(c.Left, Skipped{o, "--keep leaves it"})
			} else {
				c.Taken = append(c.Taken, o.Name)
			}
		}
	}
	if keep {
		c.Import = &Import{Files: []File{}, Servers: []*Server{}, Skipped: []Skipped{}}
	}
	slices.Sort(c.Taken)
	if own == "" {
		return c.Taken
	}
	return append(slices.Clone(c.Taken), own)
}

// writeInstallation sets the text and the record.
func (c *Change) writeInstallation(take []string, entry json.RawMessage, before *record) error {
	f, err := c.openText(c.Before)
	if err != nil {
		return c.refuseFile(err)
	}
	r := &record{Format: 1, Client: c.ID, Created: c.Before == nil}
	if before != nil {
		r.Created, r.Backup = before.Created, before.Backup
		r.Taken = slices.DeleteFunc(before.Taken, func(s takenServer) bool { return slices.Contains(c.Taken, s.Name) })
	}
	if c.Before != nil {
		if c.backup, err = c.chooseBackup(); err != nil {
			return err
		}
		if before == nil {
			r.Backup, r.Before = filepath.Base(c.backup), digestText(c.Before)
		}
	}
	for _, name := range take {
		text, err := f.removeServer(name)
		if err != nil {
			return c.refuseFile(err)
		}
		if before == nil || name != tool.Own {
			r.Taken = append(r.Taken, takenServer{name, text, filepath.Base(c.backup)})
		}
	}
	if err := f.addServer(tool.Own, entry); err != nil {
		return c.refuseFile(err)
	}
	if c.After, err = f.packText(); err != nil {
		return c.refuseFile(err)
	}
	r.After = digestText(c.After)
	c.record = r
	return c.checkServers()
}

func (c *Change) refuseFile(err error) error {
	return tool.Errorf(tool.Invalid, "%s of %s was not changed: %v", c.File, c.Client, err)
}

// checkServers checks that the client reads the new text as it is meant.
func (c *Change) checkServers() error {
	d, err := c.place.format.decodeDocument(c.After)
	if err != nil {
		return c.refuseFile(err)
	}
	servers := d.Servers
	if c.place.format != vscode {
		servers = c.place.listServers(d, "")
	}
	if !c.isBiplane(servers[tool.Own]) {
		return c.refuseFile(errors.New("the result would not start Biplane"))
	}
	for _, name := range c.Taken {
		if _, ok := servers[name]; ok && name != tool.Own {
			return c.refuseFile(fmt.Errorf("%q could not be taken out", name))
		}
	}
	if len(servers) != 1+len(c.Left) {
		return c.refuseFile(errors.New("it has its servers in several tables, or under several names"))
	}
	if a := d.Settings.Allowed; c.place.format == gemini && a != nil && !slices.Contains(a, tool.Own) {
		return c.refuseFile(fmt.Errorf("its mcp.allowed does not name %s: add it first", tool.Own))
	}
	return nil
}

// maxBackups is the maximum number of backups of a file.
const maxBackups = 100

// chooseBackup returns a name for the copy of the file that is not in use.
func (t *Target) chooseBackup() (string, error) {
	for n := 1; n <= maxBackups; n++ {
		name := t.File + ".before-biplane"
		if n > 1 {
			name += fmt.Sprintf("-%d", n)
		}
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
	}
	return "", tool.Errorf(tool.Limit, "%s has %d copies: delete those that you don't need", t.File, maxBackups)
}

// importServers converts the servers of one file.
func (p Place) importServers(servers serverTable, m Machine, env func(string) (string, bool)) *Import {
	x := &Import{Files: []File{}, Servers: []*Server{}, Skipped: []Skipped{}}
	b := importBuilder{x, map[string]*Server{}, map[string]bool{}}
	b.addServers(p, servers, m, env)
	return x
}

// PlanImport returns the change of Biplane's configuration that adds the servers it doesn't have.
// found has the others, with their names there.
func PlanImport(path string, x *Import, env func(string) (string, bool), strongest tool.Tier) (edit *config.Edit,
	added, found []string, _ error) {
	known, err := config.ReadServers(path)
	if err != nil {
		return nil, nil, nil, err
	}
	taken, byKey := map[string]bool{}, map[string]string{}
	for name, e := range known {
		taken[name], byKey[definition{ServerEntry: e}.identityKey()] = true, name
	}
	entries := map[string]config.ServerEntry{}
	for _, s := range x.Servers {
		if name, ok := byKey[s.definition.identityKey()]; ok {
			found = append(found, name)
			continue
		}
		name := distinctName(s.Name, s.Sources[0].Client, taken)
		taken[name], entries[name] = true, s.definition.ServerEntry
		added = append(added, name)
	}
	lenient := func(name string) (string, bool) { // a variable that is not set is reported, not an error
		v, _ := env(name)
		return v, true
	}
	if edit, err = config.PlanServers(path, entries, lenient, strongest); err != nil {
		return nil, nil, nil, err
	}
	if len(edit.After) == 0 {
		edit.After = []byte("mcpServers: {}\n")
	}
	return edit, added, found, nil
}

// equalJSON reports whether two values are the same.
func equalJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// maskEntries returns a Masker with the secrets of a client's servers.
func maskEntries(f format, servers serverTable) *mask.Masker {
	m := mask.New()
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		raw, err := f.normalizeEntry(servers[name])
		if err != nil {
			continue
		}
		e, err := decodeEntry(raw)
		if err != nil {
			continue
		}
		for k, v := range e.Env {
			if mask.IsSecretVariable(k, string(v)) {
				m.Add(string(v))
			}
		}
		for _, headers := range []map[string]scalar{e.Headers, e.HTTPHeaders} {
			for k, v := range headers {
				m.AddSecrets(map[string]string{k: string(v)})
			}
		}
		m.AddArguments(e.Args)
		for _, address := range []string{e.URL, e.ServerURL, e.HTTPURL} {
			m.AddAddress(address)
		}
		for _, raw := range []json.RawMessage{e.OAuth, e.Auth} {
			var o oauthEntry
			if json.Unmarshal(raw, &o) == nil {
				m.Add(o.ClientSecret, o.CursorSecret)
			}
		}
	}
	return m
}

// IsEmpty reports whether the change changes nothing.
func (c *Change) IsEmpty() bool {
	return bytes.Equal(c.Before, c.After) && (c.Before == nil) == (c.After == nil)
}

// BackupFile returns the file that the text before the change is copied to; empty if there is none.
func (c *Change) BackupFile() string { return c.backup }

// DiffFile returns the change as a unified diff, without secrets.
func (c *Change) DiffFile() string { return c.DiffTexts(c.File, c.Before, c.After) }

// DiffTexts returns the difference of two texts of a file as a unified diff, without the secrets of
// the client's servers.
func (c *Change) DiffTexts(path string, before, after []byte) string {
	out := string(diff.Diff(path, before, path, after))
	_, out, _ = strings.Cut(out, "\n") // the command line of a diff of files
	return c.masker.Text(out)
}

// WriteFiles makes the change: first the copy and the record, then the file.
func (c *Change) WriteFiles() error {
	if c.IsEmpty() {
		return c.cleanUp()
	}
	if err := c.compareFile(); err != nil {
		return err
	}
	if c.Before == nil {
		if err := os.MkdirAll(filepath.Dir(c.File), 0o700); err != nil {
			return err
		}
	}
	if c.backup != "" {
		if err := atomicfile.WriteFile(c.backup, c.Before, 0o600); err != nil {
			return err
		}
	}
	if c.record != nil {
		text, err := json.MarshalIndent(c.record, "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.WriteFile(c.recordFile(), append(text, '\n'), 0o600); err != nil {
			return err
		}
	}
	if err := c.replaceFile(); err != nil {
		return err
	}
	return c.cleanUp()
}

// compareFile returns an error if the file was changed since it was read.
func (c *Change) compareFile() error {
	now, err := c.place.loadText()
	if errors.Is(err, fs.ErrNotExist) {
		now, err = nil, nil
	}
	if err != nil || !bytes.Equal(now, c.Before) {
		return tool.Errorf(tool.Conflict, "%s was changed by another program: try again", c.File)
	}
	return nil
}

// replaceFile replaces the file that a symbolic link leads to, and keeps its mode.
func (c *Change) replaceFile() error {
	path, mode := c.File, fs.FileMode(0o600)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	} else if _, err := os.Lstat(path); err == nil {
		return tool.Errorf(tool.Invalid, "%s is a link to a file that doesn't exist: create the file first", path)
	}
	if c.After == nil {
		return os.Remove(path)
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := atomicfile.Create(path, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(c.After); err != nil {
		return err
	}
	if err := c.compareFile(); err != nil {
		return err
	}
	return f.Commit()
}

// cleanUp deletes what is no longer needed.
func (c *Change) cleanUp() error {
	var err error
	if c.record == nil {
		err = os.Remove(c.recordFile())
	}
	if c.spent != "" {
		err = errors.Join(err, os.Remove(c.spent))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
