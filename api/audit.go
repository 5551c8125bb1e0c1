package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An AuditRecord is one thing that happened, as the record tells it.
type AuditRecord struct {
	ID        string            `json:"record"` // ids are in the order of time
	Seq       int64             `json:"seq"`    // index of its first leaf in the log
	Kind      string            `json:"kind"`   // "call", "execution", "session", "sign-in", "configuration", "policy", "key", "approval", "file", "read", "record"
	Time      time.Time         `json:"time"`
	Principal string            `json:"principal,omitempty"`
	Client    string            `json:"client,omitempty"`
	Tool      string            `json:"tool,omitempty"`
	Upstream  string            `json:"upstream,omitempty"`
	Execution string            `json:"execution,omitempty"` // that made the call, or that ended
	Call      string            `json:"call,omitempty"`
	Session   string            `json:"session,omitempty"`
	File      string            `json:"file,omitempty"`
	Name      string            `json:"name,omitempty"`
	Effect    string            `json:"effect,omitempty"` // of the decision: "allow", "ask", "deny"
	Policy    string            `json:"policy,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Outcome   string            `json:"outcome"`              // "ok", "error" (the tool reports failure), "failed", or "unfinished"
	ErrorKind string            `json:"error_kind,omitempty"` // where it failed
	Ended     time.Time         `json:"ended,omitzero"`       // of a call that has ended
	EndSeq    int64             `json:"end_seq,omitempty"`    // index of the leaf of its end
	Micros    int64             `json:"duration_us,omitempty"`
	Arguments *AuditPayload     `json:"arguments,omitempty"`
	Result    *AuditPayload     `json:"result,omitempty"`
	Error     *AuditPayload     `json:"error,omitempty"`
	Detail    map[string]string `json:"detail,omitempty"`
	Leaves    []AuditLeaf       `json:"leaves,omitempty"` // where one record was asked for
	// Problem says why this is not what was recorded: it was changed, moved or removed. All else may be wrong, or missing, then.
	Problem string `json:"problem,omitempty"`
}

// An AuditPayload is what the record knows of arguments, a result, or the text of an error.
type AuditPayload struct {
	Digest string `json:"digest"` // keyed: it can't be guessed from outside
	Size   int64  `json:"size"`   // bytes of all of it
	Whole  bool   `json:"whole"`  // what was kept is all of it, not a part, and nothing in it was replaced
	Text   string `json:"text,omitempty"`
	Gone   bool   `json:"gone,omitempty"` // it was kept, and is not there any more
}

// An AuditLeaf is one entry of the log.
type AuditLeaf struct {
	Seq  int64  `json:"seq"`
	Leaf string `json:"leaf"` // canonical JSON (RFC 8785), byte for byte what was hashed
}

// An AuditQuery picks records. Zero fields pick all.
type AuditQuery struct {
	Kind, Execution, Tool, Upstream, Principal, Outcome string

	Effect       string // of the decision: "allow", "ask", "deny"
	Since, Until time.Time
	Before       string // records older than the one with this id: the next page
	Limit        int    // at most so many, 100 when 0, never more than 1000
}

// AuditState is how the record is.
type AuditState struct {
	Origin string      `json:"origin"` // name of the log
	Key    string      `json:"key"`    // that checks what the log signs (a verifier key of C2SP signed-note)
	Size   int64       `json:"size"`   // leaves
	Root   string      `json:"root"`   // of the Merkle tree, base64
	Sinks  []AuditSink `json:"sinks"`  // where checkpoints are sent
	Error  string      `json:"error,omitempty"`
}

// An AuditSink is a place outside that checkpoints are sent to.
type AuditSink struct {
	Name     string    `json:"name"`
	Sent     int64     `json:"sent"` // leaves of the newest checkpoint that is there; -1: none since this process began
	SentAt   time.Time `json:"sent_at,omitzero"`
	Waiting  bool      `json:"waiting"`         // a newer one is to be sent
	Failures int       `json:"failures"`        // attempts in a row that failed
	Error    string    `json:"error,omitempty"` // why the last one did
}

// An AuditCheckpoint is a signed head of the log.
type AuditCheckpoint struct {
	Origin     string      `json:"origin"`
	Size       int64       `json:"size"`
	Root       string      `json:"root"`            // base64
	Checkpoint string      `json:"checkpoint"`      // the signed note (C2SP tlog-checkpoint)
	Sinks      []AuditSink `json:"sinks,omitempty"` // of one that was sent
}

// AuditProof is a proof, as text that is checked with nothing but the log's key.
type AuditProof struct {
	Proof string `json:"proof"`
}

// An AuditReport is what a check of the whole record found.
type AuditReport struct {
	OK          bool           `json:"ok"`
	Origin      string         `json:"origin"`
	Size        int64          `json:"size"`
	Root        string         `json:"root"`
	Records     int64          `json:"records"`
	Unfinished  int64          `json:"unfinished"`  // calls without an end
	Checkpoints int64          `json:"checkpoints"` // stored, and good
	Covered     int64          `json:"covered"`     // leaves that a good checkpoint covers
	Payloads    int64          `json:"payloads"`
	Faults      []AuditFault   `json:"faults"`
	More        int64          `json:"more,omitempty"` // faults beyond these
	Outside     []AuditOutside `json:"outside,omitempty"`
}

// An AuditFault is something wrong with the record.
type AuditFault struct {
	What    string `json:"what"` // "changed", "hash", "missing", "inserted", "moved", "form", "pair", "checkpoint", "fork", "truncated", "payload", "store"
	Seq     int64  `json:"seq"`  // first leaf that it is about; -1: none
	Last    int64  `json:"last"`
	Record  string `json:"record,omitempty"`
	Message string `json:"message"`
}

// AuditOutside says of a checkpoint from outside whether the log begins with exactly what it signs.
type AuditOutside struct {
	Size int64 `json:"size"`
	OK   bool  `json:"ok"`
}

// AuditCheckpoints are checkpoints from outside.
type AuditCheckpoints struct {
	Checkpoints []string `json:"checkpoints"`
}

// Audit says how the record is.
func (c *Client) Audit(ctx context.Context) (*AuditState, error) {
	return get[*AuditState](ctx, c, "/audit")
}

// FlawTrailer is the HTTP trailer of an export, or of evidence, that is complete and in which something is not what was recorded. Its value says what.
const FlawTrailer = "Biplane-Record-Flaw"

// AuditRecords returns records, newest first. What is not what was recorded has a Problem.
func (c *Client) AuditRecords(ctx context.Context, q AuditQuery) ([]AuditRecord, error) {
	return get[[]AuditRecord](ctx, c, "/audit/records?"+q.values().Encode())
}

func (q AuditQuery) values() url.Values {
	v := url.Values{}
	for k, s := range map[string]string{
		"kind": q.Kind, "execution": q.Execution, "tool": q.Tool, "upstream": q.Upstream, "principal": q.Principal, "outcome": q.Outcome, "effect": q.Effect, "before": q.Before,
	} {
		if s != "" {
			v.Set(k, s)
		}
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if !q.Until.IsZero() {
		v.Set("until", q.Until.UTC().Format(time.RFC3339Nano))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// AuditRecord gives one record with its leaves, and what was kept of arguments and results.
func (c *Client) AuditRecord(ctx context.Context, id string) (*AuditRecord, error) {
	return get[*AuditRecord](ctx, c, "/audit/records/"+url.PathEscape(id))
}

// ProveAudit gives the proof that a record is in the log. at is the text of an earlier checkpoint that it is to be proved with; a new one is
// made where it is empty.
func (c *Client) ProveAudit(ctx context.Context, id, at string) (*AuditProof, error) {
	return post[*AuditProof](ctx, c, "/audit/records/"+url.PathEscape(id)+"/proof", AuditCheckpoint{Checkpoint: at})
}

// VerifyAudit checks the whole record, against checkpoints from outside too.
func (c *Client) VerifyAudit(ctx context.Context, outside ...string) (*AuditReport, error) {
	return post[*AuditReport](ctx, c, "/audit/verify", AuditCheckpoints{outside})
}

// Checkpoint makes a checkpoint, and sends it to all sinks.
func (c *Client) Checkpoint(ctx context.Context) (*AuditCheckpoint, error) {
	return post[*AuditCheckpoint](ctx, c, "/audit/checkpoints", struct{}{})
}

// Checkpoints lists the stored checkpoints, oldest first; the newest 10,000 of them.
func (c *Client) Checkpoints(ctx context.Context) ([]AuditCheckpoint, error) {
	return get[[]AuditCheckpoint](ctx, c, "/audit/checkpoints")
}

// ProveConsistency gives the proof that the log only grew since an older checkpoint.
func (c *Client) ProveConsistency(ctx context.Context, older string) (*AuditProof, error) {
	return post[*AuditProof](ctx, c, "/audit/consistency", AuditCheckpoint{Checkpoint: older})
}

// ExportAudit writes the records of a time, oldest first, to w: "ocsf" (JSON lines) or "csv". A *FlawError says
// that all was written, and that some of it is not what was recorded; its records say so, too.
func (c *Client) ExportAudit(ctx context.Context, format string, from, to time.Time, w io.Writer) error {
	v := AuditQuery{Since: from, Until: to}.values()
	v.Set("format", format)
	return c.download(ctx, http.MethodGet, "/audit/export?"+v.Encode(), nil, w)
}

// AuditEvidence writes the evidence of a time, as a zip archive, to w. A *FlawError says that all was written, and that the record is not good.
func (c *Client) AuditEvidence(ctx context.Context, from, to time.Time, w io.Writer) error {
	return c.download(ctx, http.MethodGet, "/audit/evidence?"+AuditQuery{Since: from, Until: to}.values().Encode(), nil, w)
}
