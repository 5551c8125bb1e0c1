package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// An OwnSandbox is a sandbox that belongs to a principal.
type OwnSandbox struct {
	ID       string    `json:"id"`
	Owner    string    `json:"owner"`
	Name     string    `json:"name,omitempty"`
	Image    string    `json:"image,omitempty"`
	Memory   int64     `json:"memory"` // limit, in bytes
	Created  time.Time `json:"created"`
	LastUsed time.Time `json:"used"`
	Expires  time.Time `json:"expires,omitzero"`
	// "running" (in use), "idle", "frozen", "reclaimed" (frozen, without its memory) or "stopped"
	// (it has only files)
	State      string        `json:"state"`
	Why        string        `json:"why,omitempty"` // why its processes were ended
	Tier       string        `json:"tier,omitempty"`
	UsedMemory int64         `json:"used_memory"`
	FileBytes  int64         `json:"file_bytes"`
	Files      int           `json:"files"`
	Idle       time.Duration `json:"idle,omitempty"`    // nanoseconds
	Standby    time.Duration `json:"standby,omitempty"` // nanoseconds
	Labels     []string      `json:"labels,omitempty"`
	Remark     string        `json:"remark,omitempty"`
	Network    bool          `json:"network,omitempty"` // it reaches the hosts that policy permits
}

// An OwnSandboxRequest asks for a new sandbox. Zero fields mean the defaults.
type OwnSandboxRequest struct {
	Name        string  `json:"name,omitempty"`
	Image       string  `json:"image,omitempty"`
	Memory      int64   `json:"memory,omitempty"`
	TTLSeconds  float64 `json:"ttl_seconds,omitempty"`  // it is removed after this time
	IdleSeconds float64 `json:"idle_seconds,omitempty"` // or when it was unused for this time
	// StandbySeconds is the idle time after which it is frozen; -1: never.
	StandbySeconds float64 `json:"standby_seconds,omitempty"`
	Network        bool    `json:"network,omitempty"` // it reaches the hosts that policy permits
}

// A SandboxOperation has the arguments of an operation in a sandbox. Each operation reads only
// some.
type SandboxOperation struct {
	Command        string            `json:"command,omitempty"` // run, start: for a shell
	Argv           []string          `json:"argv,omitempty"`    // run, start: instead of Command
	Directory      string            `json:"directory,omitempty"`
	Environment    map[string]string `json:"environment,omitempty"`
	Input          string            `json:"input,omitempty"`           // run: its standard input
	TimeoutSeconds float64           `json:"timeout_seconds,omitempty"` // run
	Process        int               `json:"process,omitempty"`         // logs, stop
	Signal         int               `json:"signal,omitempty"`          // stop
	Path           string            `json:"path,omitempty"`
	To             string            `json:"to,omitempty"`     // move
	Text           *string           `json:"text,omitempty"`   // write
	Base64         []byte            `json:"base64,omitempty"` // write: instead of Text
	Append         bool              `json:"append,omitempty"` // write
	Offset         *int64            `json:"offset,omitempty"` // read, write, logs, watch
	Length         int64             `json:"length,omitempty"` // read, logs
	Recursive      bool              `json:"recursive,omitempty"`
	WaitSeconds    float64           `json:"wait_seconds,omitempty"`    // logs, watch
	Port           int               `json:"port,omitempty"`            // preview
	ExpiresSeconds float64           `json:"expires_seconds,omitempty"` // preview
}

// A SandboxAnswer is the answer of an operation in a sandbox. Each operation sets only some fields.
type SandboxAnswer struct {
	Stdout    string           `json:"stdout,omitempty"`  // run
	Stderr    string           `json:"stderr,omitempty"`  // run
	Omitted   int64            `json:"omitted,omitempty"` // run: bytes that are left out of a long output
	Exit      *SandboxExit     `json:"exit,omitempty"`
	Process   *SandboxProcess  `json:"process,omitempty"`
	Processes []SandboxProcess `json:"processes,omitempty"`
	Text      string           `json:"text,omitempty"`   // read, logs
	Base64    []byte           `json:"base64,omitempty"` // read, logs: instead of Text
	Offset    int64            `json:"offset,omitempty"` // read, logs, watch: where to continue
	Lost      bool             `json:"lost,omitempty"`   // logs, watch: something before is missing
	File      *SandboxFile     `json:"file,omitempty"`
	Files     []SandboxFile    `json:"files,omitempty"`
	Events    []SandboxEvent   `json:"events,omitempty"`
	Ports     []SandboxPort    `json:"ports,omitempty"`
	Clipped   bool             `json:"clipped,omitempty"` // a list is longer
	Woken     string           `json:"woken,omitempty"`   // from which state the sandbox was woken
	Notes     []string         `json:"notes,omitempty"`   // such as connections that were refused
	URL       string           `json:"url,omitempty"`     // preview: opens the port in a browser
	Expires   time.Time        `json:"expires,omitzero"`  // preview
}

// A SandboxExit says how a command ended.
type SandboxExit struct {
	Status   int    `json:"status"` // -1 after a signal
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
}

// A SandboxProcess is a process in the background.
type SandboxProcess struct {
	ID      int          `json:"id"`
	Command []string     `json:"command"`
	Started time.Time    `json:"started"`
	Exit    *SandboxExit `json:"exit,omitempty"` // nil: it runs
	Output  int64        `json:"output"`         // bytes that it has written
}

// A SandboxFile describes a file or a folder.
type SandboxFile struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"` // "file", "dir", "link", "other"
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Mode     uint32    `json:"mode"`
	Target   string    `json:"target,omitempty"` // of a link
}

// A SandboxEvent is a change of a file.
type SandboxEvent struct {
	Path string `json:"path"`
	What string `json:"what"` // "created", "changed", "removed"
	Dir  bool   `json:"dir,omitempty"`
}

// A SandboxPort is a TCP port that a process listens on.
type SandboxPort struct {
	Port    int    `json:"port"`
	Address string `json:"address"`
}

// A SandboxOutput is a line of the answer to the operation run, if the request accepts
// application/x-ndjson: output of the command, or at the end its answer or an error.
type SandboxOutput struct {
	Stream string         `json:"stream,omitempty"` // "stdout", "stderr"
	Data   string         `json:"data,omitempty"`
	Answer *SandboxAnswer `json:"answer,omitempty"`
	Error  *Error         `json:"error,omitempty"`
}

// NDJSON is the media type of an answer that consists of SandboxOutputs, one on a line.
const NDJSON = "application/x-ndjson"

// A SandboxClient uses the caller's sandboxes.
type SandboxClient struct{ client *Client }

// OwnSandboxes returns the client of the caller's sandboxes.
func (c *Client) OwnSandboxes() SandboxClient { return SandboxClient{c} }

// ListSandboxes lists the caller's sandboxes.
func (c SandboxClient) ListSandboxes(ctx context.Context) ([]OwnSandbox, error) {
	return get[[]OwnSandbox](ctx, c.client, "/me/sandboxes")
}

// ShowSandbox returns one of the caller's sandboxes, by ID or name.
func (c SandboxClient) ShowSandbox(ctx context.Context, name string) (*OwnSandbox, error) {
	return get[*OwnSandbox](ctx, c.client, "/me/sandboxes/"+url.PathEscape(name))
}

// CreateSandbox creates a sandbox.
func (c SandboxClient) CreateSandbox(ctx context.Context, r OwnSandboxRequest) (*OwnSandbox, error) {
	return post[*OwnSandbox](ctx, c.client, "/me/sandboxes", r)
}

// EndSandbox ends a sandbox, and removes its files.
func (c SandboxClient) EndSandbox(ctx context.Context, name string) error {
	_, err := ask[struct{}](ctx, c.client, http.MethodDelete, "/me/sandboxes/"+url.PathEscape(name), nil)
	return err
}

// SuspendSandbox freezes the processes of a sandbox that no operation uses. Its next use continues
// them.
func (c SandboxClient) SuspendSandbox(ctx context.Context, name string) (*OwnSandbox, error) {
	return post[*OwnSandbox](ctx, c.client, "/me/sandboxes/"+url.PathEscape(name)+"/suspend", struct{}{})
}

// ResumeSandbox starts or continues the processes of a sandbox.
func (c SandboxClient) ResumeSandbox(ctx context.Context, name string) (*OwnSandbox, error) {
	return post[*OwnSandbox](ctx, c.client, "/me/sandboxes/"+url.PathEscape(name)+"/resume", struct{}{})
}

// UseSandbox carries out an operation: "run", "start", "processes", "logs", "stop", "read",
// "write", "files", "stat", "mkdir", "move", "remove", "watch" or "ports".
func (c SandboxClient) UseSandbox(ctx context.Context, name, operation string, o SandboxOperation) (*SandboxAnswer,
	error) {
	return post[*SandboxAnswer](ctx, c.client, "/me/sandboxes/"+url.PathEscape(name)+"/"+url.PathEscape(operation), o)
}

// RunInSandbox runs a command, and writes its output to out and errs as it arrives.
func (c SandboxClient) RunInSandbox(ctx context.Context, name string, o SandboxOperation, out, errs io.Writer) (
	*SandboxAnswer, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.client.Base, "/")+Prefix+
		"/me/sandboxes/"+url.PathEscape(name)+"/run", bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Invalid, "biplane: " + err.Error()}
	}
	req.Header.Set("Accept", NDJSON)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.sendRequest(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // an error of unknown text is one, too
		return nil, answerError(resp, text)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var v SandboxOutput
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return nil, &Error{Internal, "biplane's answer is not what this client reads: " + err.Error()}
		}
		to := out
		switch {
		case v.Error != nil:
			return nil, v.Error
		case v.Answer != nil:
			return v.Answer, nil
		case v.Stream == "stderr":
			to = errs
		}
		if _, err := io.WriteString(to, v.Data); err != nil {
			return nil, &Error{Canceled, "the output can't be written: " + err.Error()}
		}
	}
	if ctx.Err() != nil {
		return nil, &Error{Canceled, "canceled"}
	}
	return nil, &Error{Unavailable, fmt.Sprintf("biplane's answer broke off: %v", lines.Err())}
}
