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

// A Session is state that persists between programs. It belongs to one principal.
type Session struct {
	Name      string   `json:"name"`
	Owner     string   `json:"owner"`
	Languages []string `json:"languages"` // that it has run
	// "running", "hot" (in memory), "frozen" (in memory, as stopped processes) or "suspended"
	// (only on disk)
	State      string    `json:"state"`
	Created    time.Time `json:"created"`
	Used       time.Time `json:"used"`
	Expires    time.Time `json:"expires"`     // when it is ended unless it is used again
	Programs   int       `json:"programs"`    // programs that succeeded
	StateBytes int64     `json:"state_bytes"` // of the memory snapshots
	FileBytes  int64     `json:"file_bytes"`
	Files      int       `json:"files"`
	// size of the journal that it can be rebuilt from; 0 if that was too large to keep
	JournalBytes int64  `json:"journal_bytes"`
	Engine       string `json:"engine"` // build of the engine that wrote the state
	// of the sandbox that the last program ran in; empty if this process has no such engine
	Tier string `json:"tier"`
	// of the data its programs have read: "confidential", "pii", "untrusted"
	Labels []string `json:"labels"`
	Note   string   `json:"note,omitempty"`
}

// A SessionSource is the source of a new session. For a fork, To is the name of the copy.
type SessionSource struct {
	To         string `json:"to,omitempty"`
	Passphrase string `json:"passphrase,omitempty"`
}

// PassphraseHeader is the header with the passphrase of an imported session, in base64 (RFC 4648,
// section 4).
const PassphraseHeader = "Biplane-Passphrase"

// A FileOp requests an operation on a session's files, other than reading or writing their content,
// which have their own routes. The fields that an operation reads, and its result, are the same as
// for programs.
type FileOp struct {
	Op        string `json:"op"` // "list", "stat", "mkdir", "rm", "rmdir", "rename", "copy", "truncate"
	Path      string `json:"path"`
	To        string `json:"to,omitempty"`
	Offset    int64  `json:"offset,omitempty"` // "truncate": the new size
	Flag      string `json:"flag,omitempty"`   // "copy": "wx" if the copy must not exist
	Recursive bool   `json:"recursive,omitempty"`
	Force     bool   `json:"force,omitempty"`
}

// A FileInfo is the result of "stat".
type FileInfo struct {
	Dir      bool  `json:"dir"`
	Size     int64 `json:"size"`
	MTime    int64 `json:"mtime"` // milliseconds since the epoch
	ReadOnly bool  `json:"readonly"`
}

// A DirEntry is an entry in the result of "list".
type DirEntry struct {
	Name string `json:"name"`
	Dir  bool   `json:"dir"`
}

// A Skill is a saved module that every program of its owner can import.
type Skill struct {
	Name        string    `json:"name"`  // of the file: "report.ts"
	Owner       string    `json:"owner"` // the user who saved it
	Own         bool      `json:"own"`   // the user is the owner
	Description string    `json:"description,omitempty"`
	Signatures  []string  `json:"signatures,omitempty"` // of its exports
	Import      string    `json:"import,omitempty"`     // a line that imports it
	Size        int       `json:"size"`                 // bytes
	Shared      bool      `json:"shared"`
	Changed     bool      `json:"changed,omitempty"` // it changed after it was shared: others see the shared version
	Modified    time.Time `json:"modified"`
	Source      string    `json:"source,omitempty"` // only if a single skill was requested
}

// A SessionClient manages sessions and their files.
type SessionClient struct{ client *Client }

// Sessions returns the client of sessions.
func (c *Client) Sessions() SessionClient { return SessionClient{c} }

// List lists the user's sessions.
func (c SessionClient) List(ctx context.Context) ([]Session, error) {
	return get[[]Session](ctx, c.client, "/sessions")
}

// Get returns one session.
func (c SessionClient) Get(ctx context.Context, name string) (*Session, error) {
	return get[*Session](ctx, c.client, sessionPath(name, ""))
}

// End ends a session and deletes all of its data.
func (c SessionClient) End(ctx context.Context, name string) error {
	_, err := ask[struct{}](ctx, c.client, http.MethodDelete, sessionPath(name, ""), nil)
	return err
}

// Fork makes an independent copy of a session.
func (c SessionClient) Fork(ctx context.Context, from, to string) (*Session, error) {
	return post[*Session](ctx, c.client, sessionPath(from, "/fork"), SessionSource{To: to})
}

// Suspend moves a session that no program uses from memory to disk.
func (c SessionClient) Suspend(ctx context.Context, name string) (*Session, error) {
	return post[*Session](ctx, c.client, sessionPath(name, "/suspend"), struct{}{})
}

// Resume loads a suspended session into memory, so that its next program begins at once.
func (c SessionClient) Resume(ctx context.Context, name string) (*Session, error) {
	return post[*Session](ctx, c.client, sessionPath(name, "/resume"), struct{}{})
}

// Export writes a session to w as a single file. With a passphrase, any Biplane that is
// given it can import the file. Without one, only the Biplane that exported it can.
func (c SessionClient) Export(ctx context.Context, name, passphrase string, w io.Writer) error {
	body, err := json.Marshal(SessionSource{Passphrase: passphrase})
	if err != nil {
		return err
	}
	return c.client.download(ctx, http.MethodPost, sessionPath(name, "/export"), body, w)
}

// Import creates a session from the output of Export.
func (c SessionClient) Import(ctx context.Context, name, passphrase string, r io.Reader) (*Session, error) {
	header := http.Header{}
	if passphrase != "" {
		header.Set(PassphraseHeader, base64.StdEncoding.EncodeToString([]byte(passphrase)))
	}
	var out Session
	if err := c.client.upload(ctx, sessionPath(name, ""), header, r, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// ReadFile writes the content of a session's file to w.
func (c SessionClient) ReadFile(ctx context.Context, session, path string, w io.Writer) error {
	return c.client.download(ctx, http.MethodGet, sessionPath(session, "/files?"+url.Values{"path": {path}}.Encode()),
		nil, w)
}

// WriteFile creates or replaces a file of a session with the content of r.
func (c SessionClient) WriteFile(ctx context.Context, session, path string, r io.Reader) error {
	return c.client.upload(ctx, sessionPath(session, "/files?"+url.Values{"path": {path}}.Encode()), nil, r, nil)
}

// StatFile returns information about a file or directory of a session.
func (c SessionClient) StatFile(ctx context.Context, session, path string) (*FileInfo, error) {
	return post[*FileInfo](ctx, c.client, sessionPath(session, "/files"), FileOp{Op: "stat", Path: path})
}

// ListFiles returns the entries of a directory of a session.
func (c SessionClient) ListFiles(ctx context.Context, session, path string) ([]DirEntry, error) {
	return get[[]DirEntry](ctx, c.client, sessionPath(session, "/directory?"+url.Values{"path": {path}}.Encode()))
}

// ChangeFile performs an operation that has no result.
func (c SessionClient) ChangeFile(ctx context.Context, session string, op FileOp) error {
	_, err := post[json.RawMessage](ctx, c.client, sessionPath(session, "/files"), op)
	return err
}

// A SkillClient manages skills.
type SkillClient struct{ client *Client }

// Skills returns the client of skills.
func (c *Client) Skills() SkillClient { return SkillClient{c} }

// List lists the user's skills and those shared by others.
func (c SkillClient) List(ctx context.Context) ([]Skill, error) {
	return get[[]Skill](ctx, c.client, "/skills")
}

// Get returns a skill with its source.
func (c SkillClient) Get(ctx context.Context, name string) (*Skill, error) {
	return get[*Skill](ctx, c.client, "/skills/"+url.PathEscape(name))
}

// Share shares a skill in its current version, or stops sharing it.
func (c SkillClient) Share(ctx context.Context, name string, shared bool) error {
	verb := "/unshare"
	if shared {
		verb = "/share"
	}
	_, err := post[json.RawMessage](ctx, c.client, "/skills/"+url.PathEscape(name)+verb, struct{}{})
	return err
}

// Remove removes a skill, also for the users it is shared with.
func (c SkillClient) Remove(ctx context.Context, name string) error {
	_, err := ask[struct{}](ctx, c.client, http.MethodDelete, "/skills/"+url.PathEscape(name), nil)
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

// download writes the body of a response to w. A truncated response is an error.
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

// A FlawError reports that a response is complete, but that part of it differs from what was
// recorded.
type FlawError struct{ Message string }

// Error returns the message.
func (e *FlawError) Error() string { return e.Message }

// upload sends r, and decodes the response into v unless v is nil.
func (c *Client) upload(ctx context.Context, path string, header http.Header, r io.Reader, v any) error {
	resp, err := c.send(ctx, http.MethodPut, path, header, "application/octet-stream", r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes+1))
	switch {
	case err != nil:
		return &Error{Unavailable, "biplane's answer broke off: " + err.Error()}
	case len(text) > answerBytes:
		return &Error{Limit, fmt.Sprintf("biplane's answer is larger than %d bytes", answerBytes)}
	case v == nil:
		return nil
	}
	if err := json.Unmarshal(text, v); err != nil {
		return &Error{Internal, "biplane's answer is not what this client reads: " + err.Error()}
	}
	return nil
}

// send sends a request and returns its response if that is 2xx.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, contentType string,
	body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Base, "/")+Prefix+path, body)
	if err != nil {
		return nil, &Error{Invalid, "biplane: " + err.Error()}
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := c.sendRequest(req)
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
