package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A Session is state that lives on between programs, and belongs to one principal.
type Session struct {
	Name         string    `json:"name"`
	Owner        string    `json:"owner"`
	Languages    []string  `json:"languages"` // that it has run
	State        string    `json:"state"`     // "running", "hot" (in memory) or "suspended" (on disk only)
	Created      time.Time `json:"created"`
	Used         time.Time `json:"used"`
	Expires      time.Time `json:"expires"`     // when it is ended if nobody uses it
	Programs     int       `json:"programs"`    // that ended well
	StateBytes   int64     `json:"state_bytes"` // of memory, packed
	FileBytes    int64     `json:"file_bytes"`
	Files        int       `json:"files"`
	JournalBytes int64     `json:"journal_bytes"` // of what it can be rebuilt from; 0 when that was too much to keep
	Engine       string    `json:"engine"`        // build of the engine that the state is of
	Labels       []string  `json:"labels"`        // of what its programs have read: "confidential", "pii", "untrusted"
	Note         string    `json:"note,omitempty"`
}

// A SessionSource is what a session is made of. In a fork To is the name of the copy.
type SessionSource struct {
	To         string `json:"to,omitempty"`
	Passphrase string `json:"passphrase,omitempty"`
}

// PassphraseHeader carries the passphrase of an imported session, in base64 (RFC 4648, section 4).
const PassphraseHeader = "Biplane-Passphrase"

// A FileOp asks for something of a session's files but their bytes, which have routes of their own. Which of the fields
// an operation reads, and what it gives, is as for programs.
type FileOp struct {
	Op        string `json:"op"` // "list", "stat", "mkdir", "rm", "rmdir", "rename", "copy", "truncate"
	Path      string `json:"path"`
	To        string `json:"to,omitempty"`
	Offset    int64  `json:"offset,omitempty"` // "truncate": the size
	Flag      string `json:"flag,omitempty"`   // "copy": "wx", the copy must not exist
	Recursive bool   `json:"recursive,omitempty"`
	Force     bool   `json:"force,omitempty"`
}

// A FileInfo is what "stat" gives.
type FileInfo struct {
	Dir      bool  `json:"dir"`
	Size     int64 `json:"size"`
	MTime    int64 `json:"mtime"` // milliseconds since the epoch
	ReadOnly bool  `json:"readonly"`
}

// A DirEntry is one of those that "list" gives.
type DirEntry struct {
	Name string `json:"name"`
	Dir  bool   `json:"dir"`
}

// A Skill is a saved module, which every program of its owner can import.
type Skill struct {
	Name        string    `json:"name"`  // of the file: "report.ts"
	Owner       string    `json:"owner"` // who saved it
	Own         bool      `json:"own"`   // the user is the owner
	Description string    `json:"description,omitempty"`
	Signatures  []string  `json:"signatures,omitempty"` // of what it exports
	Import      string    `json:"import,omitempty"`     // a line that imports it
	Size        int       `json:"size"`                 // bytes
	Shared      bool      `json:"shared"`
	Changed     bool      `json:"changed,omitempty"` // it is shared, and has changed since: others see it as it was
	Modified    time.Time `json:"modified"`
	Source      string    `json:"source,omitempty"` // where one skill was asked for
}

// Sessions lists the user's sessions.
func (c *Client) Sessions(ctx context.Context) ([]Session, error) {
	return get[[]Session](ctx, c, "/sessions")
}

// Session gives one session.
func (c *Client) Session(ctx context.Context, name string) (*Session, error) {
	return get[*Session](ctx, c, sessionPath(name, ""))
}

// EndSession ends a session: nothing of it remains.
func (c *Client) EndSession(ctx context.Context, name string) error {
	_, err := ask[struct{}](ctx, c, http.MethodDelete, sessionPath(name, ""), nil)
	return err
}

// ForkSession makes an independent copy.
func (c *Client) ForkSession(ctx context.Context, from, to string) (*Session, error) {
	return post[*Session](ctx, c, sessionPath(from, "/fork"), SessionSource{To: to})
}

// ExportSession writes a session as one file to w. With a passphrase any Biplane can import it that knows it, without one
// only that which exported it.
func (c *Client) ExportSession(ctx context.Context, name, passphrase string, w io.Writer) error {
	body, err := json.Marshal(SessionSource{Passphrase: passphrase})
	if err != nil {
		return err
	}
	return c.download(ctx, http.MethodPost, sessionPath(name, "/export"), body, w)
}

// ImportSession makes a session of what ExportSession wrote.
func (c *Client) ImportSession(ctx context.Context, name, passphrase string, r io.Reader) (*Session, error) {
	header := http.Header{}
	if passphrase != "" {
		header.Set(PassphraseHeader, base64.StdEncoding.EncodeToString([]byte(passphrase)))
	}
	var out Session
	if err := c.upload(ctx, sessionPath(name, ""), header, r, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// ReadFile writes the bytes of a session's file to w.
func (c *Client) ReadFile(ctx context.Context, session, path string, w io.Writer) error {
	return c.download(ctx, http.MethodGet, sessionPath(session, "/files?"+url.Values{"path": {path}}.Encode()), nil, w)
}

// WriteFile makes a file of a session, or replaces it, with the bytes of r.
func (c *Client) WriteFile(ctx context.Context, session, path string, r io.Reader) error {
	return c.upload(ctx, sessionPath(session, "/files?"+url.Values{"path": {path}}.Encode()), nil, r, nil)
}

// StatFile tells of a file or directory of a session.
func (c *Client) StatFile(ctx context.Context, session, path string) (*FileInfo, error) {
	return post[*FileInfo](ctx, c, sessionPath(session, "/files"), FileOp{Op: "stat", Path: path})
}

// ListFiles gives what is in a directory of a session.
func (c *Client) ListFiles(ctx context.Context, session, path string) ([]DirEntry, error) {
	return post[[]DirEntry](ctx, c, sessionPath(session, "/files"), FileOp{Op: "list", Path: path})
}

// ChangeFile does an operation that gives nothing.
func (c *Client) ChangeFile(ctx context.Context, session string, op FileOp) error {
	_, err := post[json.RawMessage](ctx, c, sessionPath(session, "/files"), op)
	return err
}

// Skills lists the user's skills and those that others share.
func (c *Client) Skills(ctx context.Context) ([]Skill, error) {
	return get[[]Skill](ctx, c, "/skills")
}

// Skill gives a skill with its source.
func (c *Client) Skill(ctx context.Context, name string) (*Skill, error) {
	return get[*Skill](ctx, c, "/skills/"+url.PathEscape(name))
}

// ShareSkill lets others import a skill as it is now, or no longer.
func (c *Client) ShareSkill(ctx context.Context, name string, shared bool) error {
	verb := "/unshare"
	if shared {
		verb = "/share"
	}
	_, err := post[json.RawMessage](ctx, c, "/skills/"+url.PathEscape(name)+verb, struct{}{})
	return err
}

// RemoveSkill removes a skill, for others too.
func (c *Client) RemoveSkill(ctx context.Context, name string) error {
	_, err := ask[struct{}](ctx, c, http.MethodDelete, "/skills/"+url.PathEscape(name), nil)
	return err
}

func sessionPath(name, rest string) string { return "/sessions/" + url.PathEscape(name) + rest }

func post[T any](ctx context.Context, c *Client, path string, v any) (T, error) {
	body, err := json.Marshal(v)
	if err != nil {
		var none T
		return none, err
	}
	return ask[T](ctx, c, http.MethodPost, path, body)
}

// download writes the body of an answer to w. An answer that breaks off is an error.
func (c *Client) download(ctx context.Context, method, path string, body []byte, w io.Writer) error {
	resp, err := c.send(ctx, method, path, nil, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		if ctx.Err() != nil {
			return &Error{Canceled, "canceled"}
		}
		return &Error{Unavailable, "biplane's answer broke off: " + err.Error()}
	}
	if flaw := resp.Trailer.Get(FlawTrailer); flaw != "" {
		return &FlawError{flaw}
	}
	return nil
}

// A FlawError says that an answer is complete, and what of it is not what was recorded.
type FlawError struct{ Message string }

// Error returns the message.
func (e *FlawError) Error() string { return e.Message }

// upload sends r, and reads the answer into v unless that is nil.
func (c *Client) upload(ctx context.Context, path string, header http.Header, r io.Reader, v any) error {
	resp, err := c.send(ctx, http.MethodPut, path, header, "application/octet-stream", r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	switch {
	case err != nil:
		return &Error{Unavailable, "biplane's answer broke off: " + err.Error()}
	case v == nil:
		return nil
	}
	if err := json.Unmarshal(text, v); err != nil {
		return &Error{Internal, "biplane's answer is not what this client reads: " + err.Error()}
	}
	return nil
}

// send makes a request and gives an answer that is 2xx.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, contentType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Base, "/")+Prefix+path, body)
	if err != nil {
		return nil, &Error{Invalid, "biplane: " + err.Error()}
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := c.do(req)
	if err != nil || resp.StatusCode/100 == 2 {
		return resp, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, &Error{Unavailable, fmt.Sprintf("biplane answered %s, and broke off: %v", resp.Status, err)}
	}
	return nil, answerError(resp, text)
}
