package httpapi

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/serve/apidoc"
)

// documentPath is the path of the OpenAPI document.
const documentPath = api.Prefix + "/openapi.json"

// pagePath is the path of the document as a page for people.
const pagePath = api.Prefix + "/docs"

// A documentText is the OpenAPI document and its page, which are written on first use.
type documentText struct {
	once       sync.Once
	text, page []byte
	err        error
}

// accessNames has the name of each access in the OpenAPI document, with its meaning.
var accessNames = [owner + 1]apidoc.Access{
	anyone:   {Name: "anyone", About: "needs no sign-in"},
	viewer:   {Name: "viewer", About: "any role; shows shared data and the caller's own"},
	user:     {Name: "user", About: "the role user, or admin"},
	auditor:  {Name: "auditor", About: "the role auditor, or admin; shows the data of all principals"},
	approver: {Name: "approver", About: "the role approver, or admin"},
	admin:    {Name: "admin", About: "the role admin"},
	owner:    {Name: "owner", About: "the local user only, over the Unix socket in the data folder"},
}

// writeDocument returns the OpenAPI document of the routes below /api/v1.
func (s *Server) writeDocument() ([]byte, error) {
	var routes []apidoc.Route
	for _, rt := range s.listRoutes() {
		method, path, ok := strings.Cut(rt.pattern, " ")
		if !ok || !strings.HasPrefix(path, api.Prefix+"/") {
			continue
		}
		o := operations.Get()[strings.Replace(rt.pattern, api.Prefix, "", 1)]
		if isList(rt.pattern, &o) {
			o.Query = append(slices.Clone(o.Query), ofPage()...)
		}
		if _, ok := repeatable[rt.pattern]; ok {
			o.Header = append(slices.Clone(o.Header), optionalText(api.IdempotencyHeader,
				"a new text for each request: the same request, sent again with it, gets the same answer"))
		}
		routes = append(routes, apidoc.Route{Method: method, Path: path, Access: accessNames[rt.access].Name,
			Open: rt.access == anyone, Operation: o})
	}
	version := "dev"
	if s.cfg.Process != nil {
		version = s.cfg.Process.Status().Version
	}
	var accesses []apidoc.Access
	for a := anyone; a <= owner; a++ {
		if n := accessNames[a]; n.Name != "" {
			accesses = append(accesses, n)
		}
	}
	return apidoc.WriteDocument(apidoc.Info{Title: "Biplane", Version: version, Accesses: accesses,
		About: "The HTTP API of Biplane. x-access says what a route requires of its callers.",
		Error: reflect.TypeFor[api.Problem]()}, routes)
}

// loadDocument returns the OpenAPI document and its page.
func (s *Server) loadDocument() (text, page []byte, err error) {
	d := &s.document
	d.once.Do(func() {
		if d.text, d.err = s.writeDocument(); d.err != nil {
			return
		}
		var kinds []apidoc.Kind
		for _, k := range slices.Sorted(maps.Keys(titles)) {
			kinds = append(kinds, apidoc.Kind{Name: string(k), Title: titles[k]})
		}
		d.page, d.err = apidoc.WritePage(d.text, kinds)
	})
	return d.text, d.page, d.err
}

// serveDocument serves the OpenAPI document.
func (s *Server) serveDocument(w http.ResponseWriter, _ *http.Request) {
	text, _, err := s.loadDocument()
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// An error means that the client has gone.
	_, _ = w.Write(text)
	_, _ = w.Write([]byte{'\n'})
}

// serveDocumentPage serves the OpenAPI document as a page for people.
func (s *Server) serveDocumentPage(w http.ResponseWriter, _ *http.Request) {
	_, page, err := s.loadDocument()
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", apidoc.PagePolicy())
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(page) // as above
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// optionalText returns a parameter that is a text.
func optionalText(name, about string) apidoc.Parameter {
	return apidoc.Parameter{Name: name, About: about, Kind: "string"}
}

func requiredText(name, about string) apidoc.Parameter {
	return apidoc.Parameter{Name: name, About: about, Kind: "string", Required: true}
}

func optionalNumber(name, about string) apidoc.Parameter {
	return apidoc.Parameter{Name: name, About: about, Kind: "integer"}
}

func optionalFlag(name, about string) apidoc.Parameter {
	return apidoc.Parameter{Name: name, About: about, Kind: "boolean"}
}

func timeParameter(name, about string, required bool) apidoc.Parameter {
	return apidoc.Parameter{Name: name, About: about, Kind: "date-time", Required: required}
}

// isList reports whether an operation returns a list in pages: see writeList. The lines of the log
// have numbers instead, and a list that grows.
func isList(pattern string, o *apidoc.Operation) bool {
	return strings.HasPrefix(pattern, "GET ") && o.Result != nil && o.Result.Kind() == reflect.Slice && o.ID != "logs"
}

// ofPage returns the parameters of operations that return pages.
func ofPage() []apidoc.Parameter {
	return []apidoc.Parameter{optionalNumber(limitParameter, "the maximum number of items, up to 1,000"),
		optionalText(cursorParameter, "of the header Link with rel=next of the page before")}
}

// ofPeriod returns the parameters of operations on a period of time.
func ofPeriod() []apidoc.Parameter {
	return []apidoc.Parameter{timeParameter("since", "the start of the period", true),
		timeParameter("until", "the end of the period", true)}
}

func ofOwner() apidoc.Parameter {
	return optionalText("owner", "the id of the principal whose data it is; empty: the local user's")
}

func ofSignIn() apidoc.Parameter { return optionalText("id", "the attempt") }

func ofFile() []apidoc.Parameter {
	return []apidoc.Parameter{requiredText("path", "the path of the file in the session")}
}

// done is the response of an operation without a result.
type done = struct{}

// operations describes each route below /api/v1, by its pattern without that prefix. A test
// compares it with the table of routes.
var operations = lazily.Value[map[string]apidoc.Operation]{Make: func() map[string]apidoc.Operation {
	return map[string]apidoc.Operation{
		"GET /openapi.json": {ID: "openAPI", Summary: "This document", Result: typeOf[any]()},
		"GET /docs":         {ID: "docs", Summary: "This document as a page for people"},
		"GET /status":       {ID: "status", Summary: "The state of the process", Result: typeOf[api.Status]()},
		"GET /logs": {ID: "logs", Summary: "The newest lines of the log", Result: typeOf[[]api.LogLine](),
			Query: []apidoc.Parameter{optionalNumber("after", "only the lines after the one with this number"),
				optionalFlag("wait", "wait for a line, for up to 50 seconds")}},
		"GET /upstreams": {ID: "upstreams", Summary: "The sources of tools", Result: typeOf[[]api.Upstream]()},
		"GET /sandboxes": {ID: "sandboxes", Summary: "The kinds of sandboxes", Result: typeOf[[]api.Capability]()},
		"GET /tools":     {ID: "tools", Summary: "All tools", Result: typeOf[[]api.Tool]()},
		"GET /tools/types": {ID: "types", Summary: "TypeScript of all tools, by file",
			Result: typeOf[map[string]string]()},
		"GET /tools/search": {ID: "search", Summary: "Search for tools", Result: typeOf[api.Hits](),
			Query: []apidoc.Parameter{requiredText("query", "what the tool is to do"),
				optionalNumber("limit", "the maximum number of results")}},
		"GET /tools/{path}": {ID: "tool", Summary: "One tool", Result: typeOf[api.ToolDetail]()},
		"POST /tools/{path}/accept": {ID: "acceptHints", Summary: "Accept a change of a tool",
			Body: typeOf[struct {
				Claim string `json:"claim"`
			}](), Result: typeOf[api.WeakerHints]()},

		"POST /executions": {ID: "run", Summary: "Run a program", Body: typeOf[api.RunRequest](),
			Result: typeOf[api.Execution]()},
		"GET /executions": {ID: "executions", Summary: "List executions", Result: typeOf[api.ExecutionPage](),
			Query: []apidoc.Parameter{{Name: "state", Kind: "string", List: true,
				About: "only those in one of these states"},
				optionalText("session", "only those of this session"),
				timeParameter("since", "only executions that started at this time or later", false),
				optionalNumber("limit", "the maximum number, up to 1,000"),
				optionalText("cursor", "next of the page before"),
				optionalText("before", "the same as cursor")}},
		"GET /executions/{id}": {ID: "execution", Summary: "The result of an execution",
			Result: typeOf[api.Execution](),
			Query:  []apidoc.Parameter{optionalFlag("tokens", "count its tokens")}},
		"DELETE /executions/{id}": {ID: "stopExecution", Summary: "Stop an execution", Result: typeOf[done]()},
		"GET /executions/{id}/journal": {ID: "journal", Summary: "Everything about an execution",
			Result: typeOf[api.ExecutionDetail](),
			Query:  []apidoc.Parameter{optionalText("past", "wait for another version than this one")}},
		"GET /executions/{id}/calls/{call}": {ID: "call", Summary: "One call of an execution",
			Result: typeOf[api.ExecutionCall]()},
		"POST /executions/{id}/replay": {ID: "replay", Summary: "Replay an execution from its journal",
			Body: typeOf[api.ReplayRequest](), Result: typeOf[api.Replay]()},

		"GET /sessions":           {ID: "sessions", Summary: "List sessions", Result: typeOf[[]api.Session]()},
		"GET /sessions/{session}": {ID: "session", Summary: "One session", Result: typeOf[api.Session]()},
		"PUT /sessions/{session}": {ID: "importSession", Summary: "Create a session from an export", Upload: true,
			Header: []apidoc.Parameter{optionalText(api.PassphraseHeader, "the passphrase of the export, in base64")},
			Result: typeOf[api.Session](), Status: http.StatusCreated},
		"DELETE /sessions/{session}": {ID: "endSession", Summary: "End a session", Result: typeOf[done]()},
		"POST /sessions/{session}/fork": {ID: "forkSession", Summary: "Copy a session",
			Body:   typeOf[api.SessionSource](),
			Result: typeOf[api.Session](), Status: http.StatusCreated},
		"POST /sessions/{session}/suspend": {ID: "suspendSession", Summary: "Move a session from memory to disk",
			Result: typeOf[api.Session]()},
		"POST /sessions/{session}/resume": {ID: "resumeSession", Summary: "Load a session into memory",
			Result: typeOf[api.Session]()},
		"POST /sessions/{session}/export": {ID: "exportSession", Summary: "Export a session",
			Body: typeOf[api.SessionSource]()},
		"GET /sessions/{session}/files": {ID: "readFile", Summary: "Read a file of a session", Query: ofFile()},
		"GET /sessions/{session}/directory": {ID: "listFiles", Summary: "List a directory of a session's files",
			Query:  []apidoc.Parameter{requiredText("path", "the path of the directory in the session")},
			Result: typeOf[[]api.DirEntry]()},
		"PUT /sessions/{session}/files": {ID: "writeFile", Summary: "Write a file of a session", Query: ofFile(),
			Upload: true,
			Result: typeOf[done]()},
		"POST /sessions/{session}/files": {ID: "changeFile", Summary: "List, move or delete files of a session",
			Body: typeOf[api.FileOp](), Result: typeOf[any]()},

		"GET /audit": {ID: "audit", Summary: "The state of the record", Result: typeOf[api.AuditState]()},
		"GET /audit/records": {ID: "auditRecords", Summary: "List records, newest first",
			Result: typeOf[[]api.AuditRecord](),
			Query: []apidoc.Parameter{optionalText("kind", ""), optionalText("execution", ""), optionalText("tool", ""),
				optionalText("upstream", ""), optionalText("principal", ""), optionalText("outcome", ""),
				optionalText("effect", ""), timeParameter("since", "", false), timeParameter("until", "", false),
				optionalText("before", "only records older than this one")}},
		"GET /audit/records/{record}": {ID: "auditRecord", Summary: "One record", Result: typeOf[api.AuditRecord]()},
		"POST /audit/records/{record}/proof": {ID: "proveRecord", Summary: "Prove a record",
			Body: typeOf[struct {
				Checkpoint string `json:"checkpoint,omitempty"`
			}](), Result: typeOf[api.AuditProof]()},
		"POST /audit/verify": {ID: "verifyAudit", Summary: "Check the whole record",
			Body:   typeOf[api.AuditCheckpoints](),
			Result: typeOf[api.AuditReport]()},
		"GET /audit/checkpoints": {ID: "checkpoints", Summary: "List checkpoints",
			Result: typeOf[[]api.AuditCheckpoint]()},
		"POST /audit/checkpoints": {ID: "makeCheckpoint", Summary: "Make a checkpoint",
			Result: typeOf[api.AuditCheckpoint]()},
		"POST /audit/consistency": {ID: "proveConsistency", Summary: "Prove that the record continues a checkpoint",
			Body: typeOf[struct {
				Checkpoint string `json:"checkpoint"`
			}](), Result: typeOf[api.AuditProof]()},
		"GET /audit/export": {ID: "exportAudit", Summary: "Export records",
			Query: append([]apidoc.Parameter{optionalText("format", "")}, ofPeriod()...)},
		"GET /audit/evidence": {ID: "auditEvidence", Summary: "Export records with their proofs", Query: ofPeriod()},

		"GET /skills": {ID: "skills", Summary: "List skills", Result: typeOf[[]api.Skill]()},
		"GET /skills/{skill}": {ID: "skill", Summary: "One skill with its source",
			Result: typeOf[api.Skill]()},
		"DELETE /skills/{skill}":       {ID: "removeSkill", Summary: "Remove a skill", Result: typeOf[done]()},
		"POST /skills/{skill}/share":   {ID: "shareSkill", Summary: "Share a skill", Result: typeOf[done]()},
		"POST /skills/{skill}/unshare": {ID: "unshareSkill", Summary: "Stop sharing a skill", Result: typeOf[done]()},

		"GET /approvals": {ID: "approvals", Summary: "List requests for approval", Result: typeOf[[]api.Approval](),
			Query: []apidoc.Parameter{optionalText("execution", "only those of this execution"),
				optionalFlag("all", "include decided requests"),
				optionalText("before", "only those older than this one")}},
		"GET /approvals/{id}": {ID: "approval", Summary: "One request for approval", Result: typeOf[api.Approval]()},
		"POST /approvals/{id}": {ID: "decide", Summary: "Approve or deny a call", Body: typeOf[api.Decision](),
			Result: typeOf[api.Approval]()},

		"GET /usage": {ID: "usage", Summary: "What was used", Result: typeOf[api.Usage](),
			Query: []apidoc.Parameter{timeParameter("from", "", false), timeParameter("to", "", false),
				optionalText("by", "what to group by, with commas")}},

		"GET /policy/schema": {ID: "policySchema", Summary: "The schema of policies", Result: typeOf[string]()},
		"GET /policy/files": {ID: "policyFiles", Summary: "The files of the policies in force",
			Result: typeOf[api.PolicyFiles]()},
		"PUT /policy/files": {ID: "editPolicy", Summary: "Change a file of the policies, and put them into force",
			Body: typeOf[api.PolicyEdit](), Result: typeOf[api.PolicyReport]()},
		"POST /policy/check": {ID: "checkPolicy", Summary: "Check policies", Result: typeOf[api.PolicyReport](),
			Body: typeOf[struct {
				Files []api.PolicyFile `json:"files,omitempty"`
			}]()},
		"POST /policy/explain": {ID: "explainPolicy", Summary: "Explain the decision on a call",
			Body: typeOf[api.PolicyQuestion](), Result: typeOf[api.PolicyAnswer]()},
		"POST /policy/replay": {ID: "replayPolicy", Summary: "Decide on recorded calls again",
			Body: typeOf[api.PolicyReplayRequest](), Result: typeOf[api.PolicyReplay]()},

		"GET /keys": {ID: "keys", Summary: "List API keys", Result: typeOf[[]api.Key]()},
		"POST /keys": {ID: "createKey", Summary: "Create an API key",
			Body:   typeOf[api.KeyRequest](),
			Result: typeOf[api.Key](), Status: http.StatusCreated},
		"POST /keys/{key}/rotate": {ID: "rotateKey", Summary: "Rotate an API key", Body: typeOf[api.RotateRequest](),
			Result: typeOf[api.Key]()},
		"DELETE /keys/{key}": {ID: "revokeKey", Summary: "Revoke an API key", Result: typeOf[api.Key]()},

		"GET /events": {ID: "events", Summary: "Changes as they happen, as server-sent events",
			Header: []apidoc.Parameter{optionalText("Last-Event-ID", "continue after this event")},
			Query: []apidoc.Parameter{{Name: "type", Kind: "string", List: true,
				About: "only these types: execution, approval, session, upstream"}}},
		"GET /notices": {ID: "noticeChannels", Summary: "List the channels for notices",
			Result: typeOf[[]api.NoticeChannel]()},
		"POST /notices/test": {ID: "testNotices", Summary: "Send a test to channels for notices",
			Body: typeOf[api.NoticeTest](), Result: typeOf[[]api.NoticeChannel]()},

		"POST /prune": {ID: "prune", Summary: "Delete or archive some old data",
			Body: typeOf[api.PruneRequest](), Result: typeOf[api.PruneStep]()},
		"POST /images/{image}/warm": {ID: "warmImage", Summary: "Start a sandbox of an image ahead",
			Body: typeOf[api.ImageWarmRequest](), Result: typeOf[api.ImageWarmth]()},
		"POST /images/{image}/copy": {ID: "copyImage", Summary: "Build an image from what was installed in a sandbox",
			Body: typeOf[api.ImageCopyRequest](), Result: typeOf[api.CopiedImage]()},

		"GET /me/secrets": {ID: "ownSecrets", Summary: "List the caller's secrets",
			Result: typeOf[[]api.Secret]()},
		"PUT /me/secrets/{secret}": {ID: "setOwnSecret", Summary: "Set a secret of the caller",
			Body:   typeOf[api.SecretRequest](),
			Result: typeOf[api.Secret]()},
		"DELETE /me/secrets/{secret}": {ID: "removeOwnSecret", Summary: "Delete a secret of the caller",
			Result: typeOf[done]()},
		"GET /me/sandboxes": {ID: "ownSandboxes", Summary: "List the caller's sandboxes",
			Result: typeOf[[]api.OwnSandbox]()},
		"POST /me/sandboxes": {ID: "createSandbox", Summary: "Create a sandbox",
			Body: typeOf[api.OwnSandboxRequest](), Result: typeOf[api.OwnSandbox]()},
		"GET /me/sandboxes/{sandbox}": {ID: "ownSandbox", Summary: "Show a sandbox of the caller",
			Result: typeOf[api.OwnSandbox]()},
		"DELETE /me/sandboxes/{sandbox}": {ID: "endSandbox", Summary: "End a sandbox, and remove its files",
			Result: typeOf[done]()},
		"POST /me/sandboxes/{sandbox}/suspend": {ID: "suspendSandbox", Summary: "Freeze the processes of a sandbox",
			Result: typeOf[api.OwnSandbox]()},
		"POST /me/sandboxes/{sandbox}/resume": {ID: "resumeSandbox",
			Summary: "Start or continue the processes of a sandbox", Result: typeOf[api.OwnSandbox]()},
		"POST /me/sandboxes/{sandbox}/{operation}": {ID: "useSandbox", Summary: "Carry out an operation in a sandbox",
			Body: typeOf[api.SandboxOperation](), Result: typeOf[api.SandboxAnswer]()},
		"GET /secrets": {ID: "secrets", Summary: "List secrets", Query: []apidoc.Parameter{ofOwner()},
			Result: typeOf[[]api.Secret]()},
		"PUT /secrets/{secret}": {ID: "setSecret", Summary: "Set a secret", Query: []apidoc.Parameter{ofOwner()},
			Body: typeOf[api.SecretRequest](), Result: typeOf[api.Secret]()},
		"DELETE /secrets/{secret}": {ID: "removeSecret", Summary: "Delete a secret",
			Query:  []apidoc.Parameter{ofOwner()},
			Result: typeOf[done]()},

		"POST /upstreams/{upstream}/sign-in": {ID: "beginSignIn", Summary: "Sign in to an upstream",
			Query: []apidoc.Parameter{ofOwner()}, Body: typeOf[api.SignInRequest](), Result: typeOf[api.SignIn]()},
		"GET /upstreams/{upstream}/sign-in": {ID: "awaitSignIn", Summary: "Wait for a sign-in",
			Query: []apidoc.Parameter{ofOwner(), ofSignIn()}, Result: typeOf[api.SignIn]()},
		"DELETE /upstreams/{upstream}/sign-in": {ID: "endSignIn", Summary: "Cancel a sign-in, or sign out",
			Query: []apidoc.Parameter{ofOwner(), ofSignIn()}, Result: typeOf[any]()},
		"POST /me/upstreams/{upstream}/sign-in": {ID: "beginOwnSignIn",
			Summary: "Sign in to an upstream for the caller",
			Body:    typeOf[api.SignInRequest](), Result: typeOf[api.SignIn]()},
		"GET /me/upstreams/{upstream}/sign-in": {ID: "awaitOwnSignIn", Summary: "Wait for a sign-in of the caller",
			Query: []apidoc.Parameter{ofSignIn()}, Result: typeOf[api.SignIn]()},
		"DELETE /me/upstreams/{upstream}/sign-in": {ID: "endOwnSignIn",
			Summary: "Cancel the caller's sign-in, or sign out",
			Query:   []apidoc.Parameter{ofSignIn()}, Result: typeOf[any]()},
	}
}}
