package httpapi

import (
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
)

// An access is the requirement of a route on its callers. All but anyone and owner have a row in
// needs.
type access int

const (
	anyone   access = iota // all clients: health checks, metadata
	viewer                 // reads shared data and its own
	visitor                // a viewer on routes that are opened before signing in: pages, metrics
	user                   // runs programs, uses sessions
	agent                  // speaks MCP
	auditor                // reads the data of all principals
	approver               // decides on calls that wait for approval
	admin                  // changes shared data
	owner                  // the local user, over the socket only
)

// needs maps an access to what a request must prove, if there is sign-in. An admin has all roles.
var needs = [owner + 1]identity.Need{
	viewer: {Scope: identity.ScopeAPI,
		Roles: []string{identity.Viewer, identity.User, identity.Auditor, identity.Approver}},
	visitor: {Scope: identity.ScopeAPI,
		Roles: []string{identity.Viewer, identity.User, identity.Auditor, identity.Approver}, Browsing: true},
	user:     {Scope: identity.ScopeAPI, Roles: []string{identity.User}},
	agent:    {Scope: identity.ScopeMCP, Roles: []string{identity.User}},
	auditor:  {Scope: identity.ScopeAPI, Roles: []string{identity.Auditor}},
	approver: {Scope: identity.ScopeAPI, Roles: []string{identity.Approver}},
	admin:    {Scope: identity.ScopeAPI, Roles: []string{identity.Admin}},
}

// homePattern is the pattern of the first page where there is no console.
const homePattern = "GET /{$}"

type route struct {
	pattern string // for http.ServeMux
	access  access
	lane    lane // whose slots its requests use
	handler http.HandlerFunc
}

// listRoutes returns the table of all routes.
func (s *Server) listRoutes() []route {
	c := &s.cfg
	lines := &logRoutes{c.Logs, s.ctx}
	process := &processRoutes{c.Process, c.Metrics}
	tools := &toolRoutes{c.Door, c.Index, c.Hints}
	executions := &executionRoutes{c.Door, c.Journals, c.Secrets, s.ctx, s.log}
	sessions := &sessionRoutes{c.Sessions, s.log}
	skills := &skillRoutes{c.Skills}
	audit := &auditRoutes{c.Audit, s.log}
	approvals := &approvalRoutes{c.Approvals, c.Journals, c.Secrets}
	usage := &usageRoutes{c.Usage}
	policies := &policyRoutes{c.Policies}
	signIns := &signInRoutes{signIns: c.SignIns, closing: s.ctx}
	ownSignIns := &signInRoutes{signIns: c.SignIns, own: true, local: c.Principal, closing: s.ctx}
	keys := &keyRoutes{c.Keys}
	notices := &noticeRoutes{c.Notices}
	events := &eventRoutes{c.Events, s.ctx}
	old := &pruneRoutes{c.Pruner}
	images := &imageRoutes{c.Images}
	boxes := &sandboxRoutes{c.Door, c.Sandboxes}
	secrets := &secretRoutes{keeper: c.SecretKeeper}
	ownSecrets := &secretRoutes{keeper: c.SecretKeeper, own: true, local: c.Principal}
	return []route{
		{"GET /healthz", anyone, opens, process.serveHealth},
		{"GET /readyz", anyone, opens, process.serveReady},
		{"GET /metrics", visitor, reads, process.serveMetrics},
		{homePattern, visitor, reads, process.serveHome},
		{"GET " + documentPath, anyone, opens, s.serveDocument},
		{"GET " + pagePath, anyone, opens, s.serveDocumentPage},
		{"GET " + api.Prefix + "/status", viewer, controls, process.showStatus},
		{"GET " + api.Prefix + "/logs", admin, waits, lines.listLines},
		{"GET " + api.Prefix + "/upstreams", viewer, reads, process.listUpstreams},
		{"GET " + api.Prefix + "/sandboxes", viewer, reads, process.listSandboxes},
		{"GET " + api.Prefix + "/tools", viewer, reads, tools.listTools},
		{"GET " + api.Prefix + "/tools/search", viewer, reads, tools.searchTools},
		{"GET " + api.Prefix + "/tools/types", viewer, reads, tools.exportTypes},
		{"GET " + api.Prefix + "/tools/{path}", viewer, reads, tools.showTool},
		{"POST " + api.Prefix + "/tools/{path}/accept", admin, controls, tools.acceptHints},
		{runPattern, user, waits, executions.runProgram},
		{"GET " + api.Prefix + "/executions", viewer, reads, executions.listExecutions},
		{"GET " + api.Prefix + "/executions/{id}", viewer, reads, executions.showExecution},
		{"DELETE " + api.Prefix + "/executions/{id}", user, controls, executions.stopExecution},
		{"GET " + api.Prefix + "/executions/{id}/journal", viewer, waits, executions.showJournal},
		{"GET " + api.Prefix + "/executions/{id}/calls/{call}", viewer, reads, executions.showCall},
		{"POST " + api.Prefix + "/executions/{id}/replay", user, waits, executions.replayExecution},
		{"GET " + api.Prefix + "/sessions", viewer, reads, sessions.listSessions},
		{"GET " + api.Prefix + "/sessions/{session}", viewer, reads, sessions.showSession},
		{"PUT " + api.Prefix + "/sessions/{session}", user, uploads, sessions.importSession},
		{"DELETE " + api.Prefix + "/sessions/{session}", user, controls, sessions.endSession},
		{"POST " + api.Prefix + "/sessions/{session}/fork", user, reads, sessions.forkSession},
		{"POST " + api.Prefix + "/sessions/{session}/suspend", user, reads, sessions.suspendSession},
		{"POST " + api.Prefix + "/sessions/{session}/resume", user, reads, sessions.resumeSession},
		{"POST " + api.Prefix + "/sessions/{session}/export", user, waits, sessions.exportSession},
		{"GET " + api.Prefix + "/sessions/{session}/files", viewer, reads, sessions.readFile},
		{"GET " + api.Prefix + "/sessions/{session}/directory", viewer, reads, sessions.listFiles},
		{"PUT " + api.Prefix + "/sessions/{session}/files", user, uploads, sessions.writeFile},
		{"POST " + api.Prefix + "/sessions/{session}/files", user, reads, sessions.changeFile},
		{"GET " + api.Prefix + "/audit", auditor, reads, audit.auditState},
		{"GET " + api.Prefix + "/audit/records", auditor, reads, audit.auditRecords},
		{"GET " + api.Prefix + "/audit/records/{record}", auditor, reads, audit.auditRecord},
		{"POST " + api.Prefix + "/audit/records/{record}/proof", auditor, reads, audit.auditProof},
		{"POST " + api.Prefix + "/audit/verify", auditor, waits, audit.auditVerify},
		{"GET " + api.Prefix + "/audit/checkpoints", auditor, reads, audit.listCheckpoints},
		{"POST " + api.Prefix + "/audit/checkpoints", auditor, reads, audit.makeCheckpoint},
		{"POST " + api.Prefix + "/audit/consistency", auditor, reads, audit.auditConsistency},
		{"GET " + api.Prefix + "/audit/export", auditor, waits, audit.auditExport},
		{"GET " + api.Prefix + "/audit/evidence", auditor, waits, audit.auditEvidence},
		{"GET " + api.Prefix + "/skills", viewer, reads, skills.listSkills},
		{"GET " + api.Prefix + "/skills/{skill}", viewer, reads, skills.showSkill},
		{"DELETE " + api.Prefix + "/skills/{skill}", user, reads, skills.removeSkill},
		{"POST " + api.Prefix + "/skills/{skill}/share", admin, reads, skills.shareSkill},
		{"POST " + api.Prefix + "/skills/{skill}/unshare", admin, reads, skills.unshareSkill},
		{"GET " + api.Prefix + "/approvals", viewer, reads, approvals.listApprovals},
		{"GET " + api.Prefix + "/approvals/{id}", viewer, reads, approvals.showApproval},
		{"POST " + api.Prefix + "/approvals/{id}", approver, controls, approvals.decideApproval},
		{"GET " + api.Prefix + "/usage", viewer, reads, usage.showUsage},
		{"GET " + api.Prefix + "/policy/schema", auditor, reads, policies.policySchema},
		{"GET " + api.Prefix + "/policy/files", auditor, reads, policies.listFiles},
		{"PUT " + api.Prefix + "/policy/files", admin, reads, policies.editFile},
		{"POST " + api.Prefix + "/policy/check", auditor, reads, policies.policyCheck},
		{"POST " + api.Prefix + "/policy/explain", auditor, reads, policies.policyExplain},
		{"POST " + api.Prefix + "/policy/replay", auditor, waits, policies.policyReplay},
		{"POST " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, waits, signIns.beginSignIn},
		{"GET " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, waits, signIns.awaitSignIn},
		{"DELETE " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, reads, signIns.endSignIn},
		{"GET " + api.Prefix + "/keys", admin, controls, keys.listKeys},
		{"POST " + api.Prefix + "/keys", admin, controls, keys.createKey},
		{"POST " + api.Prefix + "/keys/{key}/rotate", admin, controls, keys.rotateKey},
		{"DELETE " + api.Prefix + "/keys/{key}", admin, controls, keys.revokeKey},
		{"GET " + api.Prefix + "/events", viewer, waits, events.streamEvents},
		{"GET " + api.Prefix + "/notices", admin, reads, notices.listChannels},
		{"POST " + api.Prefix + "/notices/test", admin, waits, notices.testChannels},
		{"POST " + api.Prefix + "/prune", admin, waits, old.pruneData},
		{"POST " + api.Prefix + "/images/{image}/warm", admin, waits, images.warmImage},
		{"POST " + api.Prefix + "/images/{image}/copy", admin, waits, images.copyImage},
		{"GET " + api.Prefix + "/me/secrets", user, controls, ownSecrets.listSecrets},
		{"PUT " + api.Prefix + "/me/secrets/{secret}", user, controls, ownSecrets.setSecret},
		{"DELETE " + api.Prefix + "/me/secrets/{secret}", user, controls, ownSecrets.removeSecret},
		{"POST " + api.Prefix + "/me/upstreams/{upstream}/sign-in", user, waits, ownSignIns.beginSignIn},
		{"GET " + api.Prefix + "/me/upstreams/{upstream}/sign-in", user, waits, ownSignIns.awaitSignIn},
		{"DELETE " + api.Prefix + "/me/upstreams/{upstream}/sign-in", user, reads, ownSignIns.endSignIn},
		{"GET " + api.Prefix + "/me/sandboxes", user, reads, boxes.listSandboxes},
		{"POST " + api.Prefix + "/me/sandboxes", user, reads, boxes.createSandbox},
		{"GET " + api.Prefix + "/me/sandboxes/{sandbox}", user, reads, boxes.showSandbox},
		{"DELETE " + api.Prefix + "/me/sandboxes/{sandbox}", user, controls, boxes.endSandbox},
		{"POST " + api.Prefix + "/me/sandboxes/{sandbox}/suspend", user, reads, boxes.suspendSandbox},
		{"POST " + api.Prefix + "/me/sandboxes/{sandbox}/resume", user, waits, boxes.resumeSandbox},
		{"POST " + api.Prefix + "/me/sandboxes/{sandbox}/{operation}", user, waits, boxes.useSandbox},
		{"GET " + api.Prefix + "/secrets", owner, controls, secrets.listSecrets},
		{"PUT " + api.Prefix + "/secrets/{secret}", owner, controls, secrets.setSecret},
		{"DELETE " + api.Prefix + "/secrets/{secret}", owner, controls, secrets.removeSecret},
		{"GET /mcp/stdio", owner, reads, s.hijackStdio},
		{mcpPath, agent, reads, s.serveMCP},
		{mcpPath + "/{profile}", agent, reads, s.serveMCP},
		{mcpPath + "/sandboxes/{sandbox}", agent, reads, boxes.serveMachine},
		{"GET " + resourcePath, anyone, opens, s.serveResource},
		{"GET " + resourcePath + "/mcp", anyone, opens, s.serveResource},
	}
}
