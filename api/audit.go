package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An AuditRecord is one event in the audit log.
type AuditRecord struct {
	ID  string `json:"record"` // ids sort by time
	Seq int64  `json:"seq"`    // index of its first leaf in the log
	// Kind is "call", "execution", "session", "sign-in", "configuration", "policy", "key",
	// "approval", "file", "read" or "record".
	Kind      string    `json:"kind"`
	Time      time.Time `json:"time"`
	Principal string    `json:"principal,omitempty"`
	Client    string    `json:"client,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	Upstream  string    `json:"upstream,omitempty"`
	Execution string    `json:"execution,omitempty"` // the execution that made the call, or that ended
	Call      string    `json:"call,omitempty"`
	Session   string    `json:"session,omitempty"`
	File      string    `json:"file,omitempty"`
	Name      string    `json:"name,omitempty"`
	AuditDecision
	// "ok", "error" (the tool reported failure), "failed" or "unfinished"
	Outcome   string            `json:"outcome"`
	ErrorKind string            `json:"error_kind,omitempty"` // if it failed
	Ended     time.Time         `json:"ended,omitzero"`       // for a call that has ended
	EndSeq    int64             `json:"end_seq,omitempty"`    // index of the leaf of its end
	Micros    int64             `json:"duration_us,omitempty"`
	Arguments *AuditPayload     `json:"arguments,omitempty"`
	Result    *AuditPayload     `json:"result,omitempty"`
	Error     *AuditPayload     `json:"error,omitempty"`
	Detail    map[string]string `json:"detail,omitempty"`
	Leaves    []AuditLeaf       `json:"leaves,omitempty"` // only if a single record was requested
	AuditProblem
}

// An AuditProblem says why a record can't be trusted, or can't be read.
type AuditProblem struct {
	// Problem says how the stored record differs from what was logged: it was changed, moved or
	// removed. The other fields may then be wrong or missing.
	Problem string `json:"problem,omitempty"`
	// Absent is the name of the segment that the record was archived in, if that file is missing.
	// Problem then says so.
	Absent string `json:"absent,omitempty"`
}

// An AuditDecision is the decision of a policy on what a record is about.
type AuditDecision struct {
	Effect string `json:"effect,omitempty"` // "allow", "ask", "deny"
	Policy string `json:"policy,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// An AuditPayload is the stored form of arguments, a result or an error text.
type AuditPayload struct {
	Digest string `json:"digest"` // keyed, so outsiders can't guess it
	Size   int64  `json:"size"`   // bytes of the full payload
	Whole  bool   `json:"whole"`  // Text is the full payload, with nothing replaced
	Text   string `json:"text,omitempty"`
	Gone   bool   `json:"gone,omitempty"` // it was kept, but no longer exists
}

// An AuditLeaf is one entry of the log.
type AuditLeaf struct {
	Seq  int64  `json:"seq"`
	Leaf string `json:"leaf"` // canonical JSON (RFC 8785), byte for byte what was hashed
}

// An AuditQuery selects records. Zero fields match all.
type AuditQuery struct {
	Kind, Execution, Tool, Upstream, Principal, Outcome string

	Effect       string // of the decision: "allow", "ask", "deny"
	Since, Until time.Time
	Before       string // only records older than this id: the next page
	Limit        int    // maximum number of records: default 100, at most 1000
}

// An AuditState describes the audit log.
type AuditState struct {
	Origin string      `json:"origin"` // name of the log
	Key    string      `json:"key"`    // the log's verifier key (C2SP signed-note)
	Size   int64       `json:"size"`   // leaves
	Root   string      `json:"root"`   // of the Merkle tree, base64
	Sinks  []AuditSink `json:"sinks"`  // where checkpoints are sent
	Error  string      `json:"error,omitempty"`
	// Verifying is the progress of a running verification of the record; nil: none runs.
	Verifying *AuditProgress `json:"verifying,omitempty"`
}

// An AuditProgress is the progress of a verification.
type AuditProgress struct {
	Leaves int64 `json:"leaves"` // verified so far
	Size   int64 `json:"size"`
}

// An AuditSink is an external destination of checkpoints.
type AuditSink struct {
	Name string `json:"name"`
	// Sent is the size, in leaves, of the newest checkpoint that was sent; -1: none since this
	// process started.
	Sent     int64     `json:"sent"`
	SentAt   time.Time `json:"sent_at,omitzero"`
	Waiting  bool      `json:"waiting"`         // a newer one is pending
	Failures int       `json:"failures"`        // consecutive failed attempts
	Error    string    `json:"error,omitempty"` // why the last attempt failed
}

// An AuditCheckpoint is a signed head of the log.
type AuditCheckpoint struct {
	Origin     string      `json:"origin"`
	Size       int64       `json:"size"`
	Root       string      `json:"root"`            // base64
	Checkpoint string      `json:"checkpoint"`      // the signed note (C2SP tlog-checkpoint)
	Sinks      []AuditSink `json:"sinks,omitempty"` // only if it was sent
}

// An AuditProof is a proof in text form. It can be checked with only the log's key.
type AuditProof struct {
	Proof string `json:"proof"`
}

// An AuditReport is the result of a check of the whole log.
type AuditReport struct {
	OK          bool           `json:"ok"`
	Origin      string         `json:"origin"`
	Size        int64          `json:"size"`
	Root        string         `json:"root"`
	Records     int64          `json:"records"`
	Unfinished  int64          `json:"unfinished"`  // calls without an end
	Checkpoints int64          `json:"checkpoints"` // stored and valid
	Covered     int64          `json:"covered"`     // leaves that a valid checkpoint covers
	Payloads    int64          `json:"payloads"`
	Segments    int64          `json:"segments,omitempty"` // of archived leaves, whose files are good
	Absent      int64          `json:"absent,omitempty"`   // leaves in missing segments
	Faults      []AuditFault   `json:"faults"`
	More        int64          `json:"more,omitempty"` // number of faults not listed
	Outside     []AuditOutside `json:"outside,omitempty"`
}

// An AuditFault is a defect found in the log.
type AuditFault struct {
	// What is "changed", "hash", "missing", "inserted", "moved", "form", "pair", "checkpoint",
	// "fork", "truncated", "payload", "store", or "archive" for a missing segment.
	What    string `json:"what"`
	Seq     int64  `json:"seq"` // first affected leaf; -1: none
	Last    int64  `json:"last"`
	Record  string `json:"record,omitempty"`
	Message string `json:"message"`
}

// An AuditOutside reports whether the log begins with exactly the leaves that an external
// checkpoint signs.
type AuditOutside struct {
	Size int64 `json:"size"`
	OK   bool  `json:"ok"`
}

// AuditCheckpoints holds external checkpoints.
type AuditCheckpoints struct {
	Checkpoints []string `json:"checkpoints"`
}

// An AuditClient reads, checks and exports the audit log.
type AuditClient struct{ client *Client }

// Audit returns the client of the audit log.
func (c *Client) Audit() AuditClient { return AuditClient{c} }

// ReadState returns the state of the audit log.
func (c AuditClient) ReadState(ctx context.Context) (*AuditState, error) {
	return get[*AuditState](ctx, c.client, "/audit")
}

// FlawTrailer is the HTTP trailer of a complete export, or complete evidence, that contains a flaw:
// something differs from what was recorded. Its value describes the flaw.
const FlawTrailer = "Biplane-Record-Flaw"

// ListRecords returns records, newest first. A record that differs from what was logged has a
// Problem.
func (c AuditClient) ListRecords(ctx context.Context, q AuditQuery) ([]AuditRecord, error) {
	return get[[]AuditRecord](ctx, c.client, "/audit/records?"+q.values().Encode())
}

func (q AuditQuery) values() url.Values {
	v := url.Values{}
	for k, s := range map[string]string{
		"kind": q.Kind, "execution": q.Execution, "tool": q.Tool, "upstream": q.Upstream, "principal": q.Principal,
		"outcome": q.Outcome, "effect": q.Effect, "before": q.Before,
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

// ReadRecord returns one record with its leaves, and what was kept of its arguments and results.
func (c AuditClient) ReadRecord(ctx context.Context, id string) (*AuditRecord, error) {
	return get[*AuditRecord](ctx, c.client, "/audit/records/"+url.PathEscape(id))
}

// ProveRecord returns a proof that a record is in the log. at is the text of an earlier checkpoint
// to prove it with; if it is empty, a new checkpoint is made.
func (c AuditClient) ProveRecord(ctx context.Context, id, at string) (*AuditProof, error) {
	return post[*AuditProof](ctx, c.client, "/audit/records/"+url.PathEscape(id)+"/proof",
		AuditCheckpoint{Checkpoint: at})
}

// Verify checks the whole log, also against the external checkpoints.
func (c AuditClient) Verify(ctx context.Context, outside ...string) (*AuditReport, error) {
	return post[*AuditReport](ctx, c.client, "/audit/verify", AuditCheckpoints{outside})
}

// MakeCheckpoint makes a checkpoint and sends it to all sinks.
func (c AuditClient) MakeCheckpoint(ctx context.Context) (*AuditCheckpoint, error) {
	return post[*AuditCheckpoint](ctx, c.client, "/audit/checkpoints", struct{}{})
}

// ListCheckpoints lists the newest 10,000 stored checkpoints, oldest first.
func (c AuditClient) ListCheckpoints(ctx context.Context) ([]AuditCheckpoint, error) {
	return get[[]AuditCheckpoint](ctx, c.client, "/audit/checkpoints")
}

// ProveConsistency returns a proof that the log has only grown since an older checkpoint.
func (c AuditClient) ProveConsistency(ctx context.Context, older string) (*AuditProof, error) {
	return post[*AuditProof](ctx, c.client, "/audit/consistency", AuditCheckpoint{Checkpoint: older})
}

// Export writes the records between from and to, oldest first, to w, in the format "ocsf"
// (JSON lines) or "csv". A *FlawError means that everything was written, but some records differ
// from what was logged. Those records say so, too.
func (c AuditClient) Export(ctx context.Context, format string, from, to time.Time, w io.Writer) error {
	v := AuditQuery{Since: from, Until: to}.values()
	v.Set("format", format)
	return c.client.download(ctx, http.MethodGet, "/audit/export?"+v.Encode(), nil, w)
}

// WriteEvidence writes the evidence between from and to to w, as a zip archive. A *FlawError means
// that everything was written, but the log has a flaw.
func (c AuditClient) WriteEvidence(ctx context.Context, from, to time.Time, w io.Writer) error {
	return c.client.download(ctx, http.MethodGet, "/audit/evidence?"+AuditQuery{Since: from,
		Until: to}.values().Encode(), nil,
		w)
}
