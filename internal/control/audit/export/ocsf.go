package export

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/tool"
)

// OCSFVersion is the version of the Open Cybersecurity Schema Framework that events follow.
const OCSFVersion = "1.3.0"

// OCSF categories, classes and activities of records.
const (
	categoryIAM = 3
	categoryApp = 6
	classAuth   = 3002 // Authentication
	classAPI    = 6003 // API Activity

	activityLogon  = 1 // for Authentication
	activityLogoff = 2
	activityRead   = 2 // for API Activity
	activityUpdate = 3
	activityOther  = 99
)

// An event is an OCSF event of one of the two classes. Members that its class doesn't have are
// empty.
type event struct {
	classification
	SeverityID   int    `json:"severity_id"`
	Severity     string `json:"severity"`
	StatusID     int    `json:"status_id"`
	Status       string `json:"status"`
	StatusCode   string `json:"status_code,omitempty"`
	StatusDetail string `json:"status_detail,omitempty"`
	occurrence
	Message     string    `json:"message"`
	Metadata    metadata  `json:"metadata"`
	Actor       *actor    `json:"actor,omitempty"`
	User        *user     `json:"user,omitempty"` // for Authentication
	Service     *entity   `json:"service,omitempty"`
	IsRemote    *bool     `json:"is_remote,omitempty"`
	API         *apiCall  `json:"api,omitempty"`
	SrcEndpoint *endpoint `json:"src_endpoint,omitempty"`
	Resources   []entity  `json:"resources,omitempty"`
	Unmapped    unmapped  `json:"unmapped"`
}

// A classification is OCSF's group of that name: what kind of event it is.
type classification struct {
	ActivityID   int    `json:"activity_id"`
	ActivityName string `json:"activity_name"`
	CategoryUID  int    `json:"category_uid"`
	CategoryName string `json:"category_name"`
	ClassUID     int    `json:"class_uid"`
	ClassName    string `json:"class_name"`
	TypeUID      int    `json:"type_uid"`
}

// An occurrence is OCSF's group of that name: when the event happened.
type occurrence struct {
	Time      int64  `json:"time"` // milliseconds since the epoch, as all OCSF times
	StartTime int64  `json:"start_time,omitempty"`
	EndTime   int64  `json:"end_time,omitempty"`
	Duration  *int64 `json:"duration,omitempty"` // milliseconds
}

type metadata struct {
	Version        string  `json:"version"`
	Product        product `json:"product"`
	UID            string  `json:"uid"`
	Sequence       int64   `json:"sequence"`
	EventCode      string  `json:"event_code"`
	LogName        string  `json:"log_name"`
	OriginalTime   string  `json:"original_time"`
	CorrelationUID string  `json:"correlation_uid,omitempty"`
}

type product struct {
	Name       string `json:"name"`
	VendorName string `json:"vendor_name"`
	Version    string `json:"version,omitempty"`
}

type actor struct {
	User           user            `json:"user"`
	AppName        string          `json:"app_name,omitempty"`
	Authorizations []authorization `json:"authorizations,omitempty"`
}

type user struct {
	UID  string `json:"uid"`
	Name string `json:"name"`
}

type authorization struct {
	Decision string  `json:"decision"`
	Policy   *policy `json:"policy,omitempty"`
}

type policy struct {
	Name string `json:"name"`
	Desc string `json:"desc,omitempty"`
}

type entity struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
	Type string `json:"type,omitempty"`
}

type apiCall struct {
	Operation string    `json:"operation"`
	Service   *entity   `json:"service,omitempty"`
	Request   *request  `json:"request,omitempty"`
	Response  *response `json:"response,omitempty"`
}

type request struct {
	UID string `json:"uid"`
}

type response struct {
	Error string `json:"error,omitempty"`
}

type endpoint struct {
	Name        string `json:"name"`
	InstanceUID string `json:"instance_uid,omitempty"`
}

// unmapped holds data without a place in OCSF.
type unmapped struct {
	EndSequence *int64            `json:"end_sequence,omitempty"`
	Arguments   *payload          `json:"arguments,omitempty"`
	Result      *payload          `json:"result,omitempty"`
	Session     string            `json:"session,omitempty"`
	File        string            `json:"file,omitempty"`
	Detail      map[string]string `json:"detail,omitempty"`
	Problem     string            `json:"problem,omitempty"`
}

type payload struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// ocsfWriter returns functions that write a record as one line and flush.
func ocsfWriter(w io.Writer, a About) (func(*audit.Record) error, func() error) {
	b := bufio.NewWriterSize(w, 64<<10)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return func(r *audit.Record) error { return e.Encode(ocsfEvent(r, a)) }, b.Flush
}

// ocsfEvent returns the event of a record.
func ocsfEvent(r *audit.Record, a About) *event {
	e := &event{
		occurrence: occurrence{Time: r.Time.UnixMilli()},
		Metadata: metadata{
			Version: OCSFVersion, Product: product{"Biplane", "Biplane", a.Version}, UID: r.ID, Sequence: r.Seq,
			EventCode: string(r.Kind),
			LogName:   a.Origin, OriginalTime: formatTime(r.Time), CorrelationUID: r.Subject.Execution,
		},
		Unmapped: unmapped{
			Arguments: digestOf(r.Arguments), Result: digestOf(r.End.Result), Session: r.Subject.Session,
			File: r.Subject.File, Detail: r.Detail, Problem: r.Problem,
		},
	}
	e.setSeverity(r)
	e.setStatus(r)
	if r.Kind == audit.KindCall && r.End.Outcome != audit.Unfinished {
		ms := r.End.Duration.Milliseconds()
		e.StartTime, e.EndTime, e.Duration, e.Unmapped.EndSequence = e.Time, r.End.Time.UnixMilli(), &ms, &r.End.Seq
	}
	who := user{r.Principal, r.Principal}
	if who.UID == "" {
		who = user{"unknown", "unknown"} // an unknown principal, for example of a refused sign-in
	}
	if r.Kind == audit.KindSignIn {
		e.setAuthentication(r, who)
	} else {
		e.setAPI(r, who)
	}
	e.TypeUID = e.ClassUID*100 + e.ActivityID
	return e
}

func (e *event) setAuthentication(r *audit.Record, who user) {
	e.CategoryUID, e.CategoryName, e.ClassUID, e.ClassName = categoryIAM, "Identity & Access Management", classAuth,
		"Authentication"
	e.ActivityID, e.ActivityName = activityLogon, "Logon"
	if r.Detail["action"] == "sign-out" {
		e.ActivityID, e.ActivityName = activityLogoff, "Logoff"
	}
	remote := r.Subject.Upstream != "" // Biplane signs in elsewhere
	e.User, e.Service, e.IsRemote = &who, &entity{Name: "biplane"}, &remote
	if remote {
		e.Service = &entity{Name: r.Subject.Upstream}
	}
	e.Actor = actorOf(r, who)
	e.Message = e.ActivityName + " of " + who.Name + " at " + e.Service.Name + ": " + formatOutcome(r)
}

func (e *event) setAPI(r *audit.Record, who user) {
	e.CategoryUID, e.CategoryName, e.ClassUID, e.ClassName = categoryApp, "Application Activity", classAPI,
		"API Activity"
	s := r.Subject
	operation := string(r.Kind)
	if action := r.Detail["action"]; action != "" {
		operation += "." + action
	}
	switch r.Kind {
	case audit.KindCall:
		e.ActivityID, e.ActivityName, operation = activityOther, "Call", s.Tool
	case audit.KindRead:
		e.ActivityID, e.ActivityName = activityRead, "Read"
	case audit.KindConfiguration, audit.KindPolicy, audit.KindTool:
		e.ActivityID, e.ActivityName = activityUpdate, "Update"
	default:
		e.ActivityID, e.ActivityName = activityOther, operation
	}
	uid := s.Call
	if uid == "" {
		uid = r.ID
	}
	e.API = &apiCall{Operation: operation, Service: &entity{Name: "biplane"}, Request: &request{uid}}
	if s.Upstream != "" {
		e.API.Service.Name = s.Upstream
	}
	if r.End.ErrorKind != "" {
		e.API.Response = &response{string(r.End.ErrorKind)}
	}
	e.Actor = actorOf(r, who)
	e.SrcEndpoint = &endpoint{Name: r.Client}
	if s.Execution != "" && r.Kind == audit.KindCall { // made by a program in the sandbox
		e.SrcEndpoint = &endpoint{Name: "biplane", InstanceUID: s.Execution}
	}
	if e.SrcEndpoint.Name == "" {
		e.SrcEndpoint.Name = "biplane"
	}
	for _, of := range []entity{{s.Tool, "", "tool"}, {s.Session, "", "session"}, {s.File, "", "file"},
		{s.Name, "", string(r.Kind)}} {
		if of.Name != "" {
			e.Resources = append(e.Resources, of)
		}
	}
	e.Message = operation + " by " + who.Name + ": " + formatOutcome(r)
}

func actorOf(r *audit.Record, who user) *actor {
	a := &actor{User: who, AppName: r.Client}
	if d := r.Decision; d.Effect != "" {
		auth := authorization{Decision: d.Effect}
		if d.Policy != "" {
			auth.Policy = &policy{d.Policy, d.Reason}
		}
		a.Authorizations = []authorization{auth}
	}
	return a
}

// setSeverity sets the severity: informational, except for events that may need attention.
func (e *event) setSeverity(r *audit.Record) {
	e.SeverityID, e.Severity = 1, "Informational"
	switch {
	case r.Problem != "", r.Kind == audit.KindRecord && r.End.Outcome == audit.Failed: // the record was found broken
		e.SeverityID, e.Severity = 5, "Critical"
	case r.End.ErrorKind == tool.Denied, r.Decision.Effect == "deny", r.Kind == audit.KindSignIn &&
		r.End.Outcome == audit.Failed:
		e.SeverityID, e.Severity = 3, "Medium"
	case r.End.Outcome == audit.Failed, r.End.Outcome == audit.ToolError:
		e.SeverityID, e.Severity = 2, "Low"
	}
}

func (e *event) setStatus(r *audit.Record) {
	switch r.End.Outcome {
	case audit.OK:
		e.StatusID, e.Status = 1, "Success"
	case audit.ToolError:
		e.StatusID, e.Status, e.StatusDetail = 2, "Failure", "the tool reported a failure"
	case audit.Failed:
		e.StatusID, e.Status, e.StatusCode = 2, "Failure", string(r.End.ErrorKind)
	default:
		e.StatusID, e.Status, e.StatusDetail = 0, "Unknown",
			"no end is recorded: it is in progress, or the process died during it"
	}
}

func digestOf(p retention.Payload) *payload {
	if p.Digest == "" {
		return nil
	}
	return &payload{p.Digest, p.Size}
}
