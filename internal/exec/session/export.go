package session

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An exported session is a file with two header lines, exportMagic and the kind of lock. The rest
// is encrypted and authenticated by age (age-encryption.org/v1) with a passphrase. The passphrase
// is either the user's, or a random one that the second line holds sealed. The plaintext holds the
// fields of Exported, each prefixed by its length.
const exportMagic = "biplane session 1\n"

const (
	lockPassphrase = "passphrase\n"
	lockKey        = "key "
	// scrypt work factors: a user's passphrase costs about 0.3 s and 64 MiB; a random one needs no
	// work. An import accepts no more.
	personWork = 16
	randomWork = 10
)

// A Sealer seals data with a key that it doesn't reveal. *secret.Key implements it.
type Sealer interface {
	Seal(purpose string, plain []byte, bind ...[]byte) []byte
	Unseal(purpose string, sealed []byte, bind ...[]byte) ([]byte, error)
}

// exportPurpose is the purpose for which the random passphrase is sealed.
const exportPurpose = "session-export"

// An Exported holds the complete data of a session for export.
type Exported struct {
	Name     string
	Exported time.Time
	Programs int
	Engine   string
	State    *State // its blobs are in Guests and Files
	Guests   map[string][]byte
	Files    []ExportedFile
	Journal  [][]byte // encoded Journals, in order
	Sealed   bool     // it was locked with the data folder's own key, so that folder wrote it
	Private  []byte   // its personal data, as exported by package privacy; empty: none
}

// An ExportedFile is a file or directory of a session.
type ExportedFile struct {
	Path     string
	Dir      bool
	Modified time.Time
	Data     []byte
}

// Write writes x, encrypted with a passphrase, or with key if the passphrase is empty.
func (x *Exported) Write(w io.Writer, passphrase string, key Sealer) error {
	lock, work := lockPassphrase, personWork
	if passphrase == "" {
		if key == nil {
			return tool.Errorf(tool.Invalid, "export: give a passphrase")
		}
		passphrase, work = rand.Text()+rand.Text(), randomWork
		sealed := key.Seal(exportPurpose, []byte(passphrase), []byte(exportMagic))
		lock = lockKey + base64.StdEncoding.EncodeToString(sealed) + "\n"
	}
	r, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return tool.Errorf(tool.Invalid, "export: %w", err)
	}
	r.SetWorkFactor(work)
	if _, err := io.WriteString(w, exportMagic+lock); err != nil {
		return err
	}
	sealed, err := age.Encrypt(w, r)
	if err != nil {
		return err
	}
	if err := x.write(sealed); err != nil {
		return err
	}
	return sealed.Close()
}

func (x *Exported) write(w io.Writer) error {
	state, err := x.State.Encode()
	if err != nil {
		return err
	}
	var e encoder
	flush := func() error {
		_, err := w.Write(e.b)
		e.b = e.b[:0]
		return err
	}
	e.text(x.Name)
	e.int(x.Exported.UnixMilli())
	e.int(int64(x.Programs))
	e.text(x.Engine)
	e.text(string(state))
	for _, g := range x.State.Guests {
		e.text(string(x.Guests[g.Language]))
	}
	e.int(int64(len(x.Journal)))
	for _, j := range x.Journal {
		e.text(string(j))
	}
	e.int(int64(len(x.Files)))
	for _, f := range x.Files {
		e.text(f.Path)
		e.int(f.Modified.UnixMilli())
		if f.Dir {
			e.byte(1)
			continue
		}
		e.byte(0)
		e.text(string(f.Data))
		if err := flush(); err != nil {
			return err
		}
	}
	if len(x.Private) > 0 {
		e.text(privatePart)
		e.text(string(x.Private))
	}
	return flush()
}

// privatePart is the name of the part after the files. It exists only if there is personal data.
const privatePart = "privacy"

// errNoExport reports that a file is not an exported session.
var errNoExport = &tool.Error{Kind: tool.Invalid, Msg: "import: the file is not a session that " +
	"this version can import: biplane sessions export writes one"}

func errUnopened(why string, err error) error {
	return &tool.Error{Kind: tool.Invalid, Msg: "import: the file does not open: " + why, Err: err}
}

// ReadExported reads what Write wrote, with at most most bytes of content. It returns an error if
// the file was modified.
func ReadExported(r io.Reader, passphrase string, key Sealer, most int64) (*Exported, error) {
	in := bufio.NewReader(io.LimitReader(r, most+most/1024+64<<10))
	line, err := head(in)
	if err != nil || line != exportMagic {
		return nil, errNoExport
	}
	lock, err := head(in)
	locked := strings.HasPrefix(lock, lockKey)
	work, why := randomWork, "it was changed"
	switch {
	case err != nil:
		return nil, errNoExport
	case lock == lockPassphrase:
		if passphrase == "" {
			return nil, tool.Errorf(tool.Invalid, "import: the file is locked with a passphrase: give it")
		}
		work, why = personWork, "the passphrase is wrong, or it was changed"
	case locked && key != nil:
		sealed, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(lock[len(lockKey):], "\n"))
		if err == nil {
			sealed, err = key.Unseal(exportPurpose, sealed, []byte(exportMagic))
		}
		if err != nil {
			return nil, errUnopened(
				"it was changed, or comes from another data folder: export it there with a passphrase", err)
		}
		passphrase = string(sealed)
	default:
		return nil, errNoExport
	}
	id, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, errUnopened(why, err)
	}
	id.SetMaxWorkFactor(work)
	opened, err := age.Decrypt(in, id)
	if err != nil {
		return nil, errUnopened(why, err)
	}
	plain, err := io.ReadAll(io.LimitReader(opened, most+1))
	switch {
	case err != nil:
		return nil, errUnopened("it was changed, or is not whole", err)
	case int64(len(plain)) > most:
		return nil, tool.Errorf(tool.Limit, "import: the session is larger than sessions may be here")
	}
	x, err := parseExported(plain)
	if err == nil {
		x.Sealed = locked
	}
	return x, err
}

// head reads a short line.
func head(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	if err == nil && len(b) > 512 {
		err = errors.New("a long line")
	}
	return string(b), err
}

func parseExported(plain []byte) (*Exported, error) {
	d := decoder{b: plain}
	x := &Exported{Guests: map[string][]byte{}}
	x.Name, x.Exported, x.Programs, x.Engine = d.text(), time.UnixMilli(d.int()), int(d.int()), d.text()
	state := d.bytes()
	if d.err != nil {
		return nil, errNoExport
	}
	var err error
	if x.State, err = DecodeState(state); err != nil {
		return nil, errNoExport
	}
	for _, g := range x.State.Guests {
		x.Guests[g.Language] = d.bytes()
	}
	for n := d.int(); n > 0 && d.err == nil; n-- {
		x.Journal = append(x.Journal, d.bytes())
	}
	for n := d.int(); n > 0 && d.err == nil; n-- {
		f := ExportedFile{Path: d.text(), Modified: time.UnixMilli(d.int()), Dir: d.byte() == 1}
		if !f.Dir {
			f.Data = d.bytes()
		}
		x.Files = append(x.Files, f)
	}
	if len(d.b) > 0 && d.err == nil && d.text() == privatePart {
		x.Private = d.bytes()
	}
	if d.err != nil || len(d.b) > 0 {
		return nil, errNoExport
	}
	return x, nil
}
