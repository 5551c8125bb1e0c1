package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/tool"
)

var at = time.Date(2026, 10, 1, 12, 0, 0, 123456000, time.UTC)

// all returns records of every kind and outcome.
func all() []*audit.Record {
	var out []*audit.Record
	add := func(r audit.Record) {
		r.ID, r.Seq, r.Time = "r"+string(rune('a'+len(out))), int64(len(out)), at
		out = append(out, &r)
	}
	payload := retention.Payload{Digest: "hmac-sha256:00", Size: 12}
	call := audit.Record{
		Kind: audit.KindCall, Principal: "local:ann", Client: "agent/2",
		Subject:   audit.Subject{Tool: "gh.delete-repo", Upstream: "gh", Call: "call_1", Execution: "x1"},
		Decision:  audit.Decision{Effect: "allow", Policy: "open", Reason: "the open policy allows every call"},
		Arguments: payload,
	}
	for _, end := range []audit.End{
		{}, {Outcome: audit.OK, Seq: 99, Time: at.Add(time.Second), Duration: time.Second, Result: payload},
		{Outcome: audit.ToolError, Time: at},
		{Outcome: audit.Failed, ErrorKind: tool.Denied, Time: at},
		{Outcome: audit.Failed, ErrorKind: tool.Timeout, Time: at},
	} {
		c := call
		c.End = end
		add(c)
	}
	for _, k := range []audit.Kind{audit.KindExecution, audit.KindSession, audit.KindSignIn, audit.KindConfiguration,
		audit.KindPolicy, audit.KindKey, audit.KindApproval, audit.KindFile, audit.KindRead, audit.KindRecord} {
		for _, o := range []audit.Outcome{audit.OK, audit.Failed} {
			add(audit.Record{Kind: k, Principal: "local:ann", Subject: audit.Subject{Name: "n", File: "f"},
				Detail: map[string]string{"action": "do", "b": "1"}, End: audit.End{Outcome: o, Time: at}})
		}
	}
	add(audit.Record{Kind: audit.KindSignIn, Subject: audit.Subject{Upstream: "gh"},
		Detail: map[string]string{"action": "sign-out"}, End: audit.End{Outcome: audit.OK}})
	add(audit.Record{Kind: audit.KindRead, End: audit.End{Outcome: audit.OK}})
	return out
}

func seq(rs []*audit.Record, err error) Records {
	return func(yield func(*audit.Record, error) bool) {
		for _, r := range rs {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

type object struct {
	Required   []string          `json:"required"`
	AtLeastOne []string          `json:"at_least_one"`
	Objects    map[string]string `json:"objects"`
	Known      []string          `json:"known"`
	Category   float64           `json:"category_uid"`
	Activities []float64         `json:"activity_id"`
}

type schema struct {
	Classes  map[string]object `json:"classes"`
	Objects  map[string]object `json:"objects"`
	Severity []float64         `json:"severity_id"`
	Status   []float64         `json:"status_id"`
}

// check returns the violations of the schema in v.
func (s *schema) check(where string, o object, v map[string]any) (wrong []string) {
	for _, k := range o.Required {
		if x, ok := v[k]; !ok || x == nil || x == "" {
			wrong = append(wrong, where+": no "+k)
		}
	}
	if len(o.AtLeastOne) > 0 && !slices.ContainsFunc(o.AtLeastOne, func(k string) bool {
		x, ok := v[k]
		return ok && x != ""
	}) {
		wrong = append(wrong, where+": none of "+strings.Join(o.AtLeastOne, ", "))
	}
	for k, x := range v {
		if len(o.Known) > 0 && !slices.Contains(o.Known, k) {
			wrong = append(wrong, where+": it has no attribute "+k)
		}
		kind := o.Objects[k]
		list, isList := x.([]any)
		if !isList {
			list = []any{x}
		}
		for _, e := range list {
			if m, ok := e.(map[string]any); ok && kind != "" {
				wrong = append(wrong, s.check(where+"."+k, s.Objects[kind], m)...)
			}
		}
	}
	return wrong
}

func TestOCSF(t *testing.T) {
	text, err := os.ReadFile("testdata/ocsf.json")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	records := all()
	var out bytes.Buffer
	n, err := Write(t.Context(), &out, "ocsf", About{"biplane/k7", "1.2.3"}, seq(records, nil))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if err != nil || n != len(records) || len(lines) != n {
		t.Fatalf("n = %v, len(lines) = %v, err = %v, want err == nil && n == len(records) && len(lines) "+
			"== n", n, len(lines), err)
	}
	for i, line := range lines {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		class := "6003"
		if records[i].Kind == audit.KindSignIn {
			class = "3002"
		}
		c, ok := s.Classes[class]
		if !ok || v["class_uid"] != map[string]float64{"6003": 6003, "3002": 3002}[class] {
			t.Fatalf("class %v of %s", v["class_uid"], records[i].Kind)
		}
		wrong := s.check(string(records[i].Kind), c, v)
		activity := v["activity_id"].(float64)
		if v["category_uid"] != c.Category || !slices.Contains(c.Activities, activity) ||
			v["type_uid"] != v["class_uid"].(float64)*100+activity {
			wrong = append(wrong, "classification")
		}
		if !slices.Contains(s.Severity, v["severity_id"].(float64)) ||
			!slices.Contains(s.Status, v["status_id"].(float64)) ||
			i > len(records)-3 && v["time"] != float64(at.UnixMilli()) {
			wrong = append(wrong, "severity, status or time")
		}
		if len(wrong) > 0 {
			t.Errorf("%s, line = %s, want len(wrong) <= 0", strings.Join(wrong, "; "), line)
		}
	}
	want := `{"activity_id":99,"activity_name":"Call","category_uid":6,"category_name":"Application Activity",` +
		`"class_uid":6003,"class_name":"API Activity","type_uid":600399,"severity_id":1,"severity":"Informational",` +
		`"status_id":1,"status":"Success","time":1790856000123,"start_time":1790856000123,"end_time":1790856001123,` +
		`"duration":1000,"message":"gh.delete-repo by local:ann: ok","metadata":{"version":"1.3.0",` +
		`"product":{"name":"Biplane","vendor_name":"Biplane","version":"1.2.3"},"uid":"rb","sequence":1,` +
		`"event_code":"call","log_name":"biplane/k7","original_time":"2026-10-01T12:00:00.123456Z",` +
		`"correlation_uid":"x1"},"actor":{"user":{"uid":"local:ann","name":"local:ann"},"app_name":"agent/2",` +
		`"authorizations":[{"decision":"allow","policy":{"name":"open","desc":"the open policy allows every ` +
		`call"}}]},"api":{"operation":"gh.delete-repo","service":{"name":"gh"},"request":{"uid":"call_1"}},` +
		`"src_endpoint":{"name":"biplane","instance_uid":"x1"},"resources":[{"name":"gh.delete-repo","type":"tool"}],` +
		`"unmapped":{"end_sequence":99,"arguments":{"digest":"hmac-sha256:00","size":12},` +
		`"result":{"digest":"hmac-sha256:00","size":12}}}`
	if lines[1] != want {
		t.Errorf("a call:\n%s\nwant:\n%s", lines[1], want)
	}
}

func TestCSV(t *testing.T) {
	evil := &audit.Record{ID: "r1", Kind: audit.KindCall, Time: at, Principal: "=cmd|' /C calc'!A0", Client: "+1",
		Subject: audit.Subject{
			Tool: "@sum(A1)", Upstream: "-2", Execution: "\tx", Call: "\ry",
			Session: "plain, with \"quotes\"\nand lines",
			Name:    "a=b"}}
	var out bytes.Buffer
	if n, err := Write(t.Context(), &out, "csv", About{}, seq(append(all(), evil), nil)); err != nil ||
		n != len(all())+1 {
		t.Fatalf("n = %v, err = %v, want err == nil && n == len(all())+1", n, err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != len(all())+2 {
		t.Fatalf("len(rows) = %v, err = %v, want err == nil && len(rows) == len(all())+2", len(rows), err)
	}
	last := map[string]string{}
	for i, name := range rows[0] {
		last[name] = rows[len(rows)-1][i]
	}
	for name, want := range map[string]string{
		"principal": "'=cmd|' /C calc'!A0", "client": "'+1", "tool": "'@sum(A1)", "upstream": "'-2",
		"execution": "'\tx", "call": "'\ry",
		"session": "plain, with \"quotes\"\nand lines", "name": "a=b", "outcome": "unfinished", "end_seq": "",
		"time": "2026-10-01T12:00:00.123456Z",
	} {
		if last[name] != want {
			t.Errorf("%s is %q, want %q", name, last[name], want)
		}
	}
	out.Reset()
	if n, err := Write(t.Context(), &out, "csv", About{}, seq(nil, nil)); err != nil || n != 0 ||
		!strings.HasPrefix(out.String(), "record,seq,time,") {
		t.Errorf("no records: %d, %v, %q", n, err, out.String())
	}
}

func TestWriteFails(t *testing.T) {
	broken := errors.New("broken")
	if n, err := Write(t.Context(), &bytes.Buffer{}, "ocsf", About{}, seq(all()[:2], broken)); n != 2 ||
		!errors.Is(err, broken) {
		t.Errorf("n = %v, err = %v, want n == 2 && errors.Is(err, broken)", n, err)
	}
	if _, err := Write(t.Context(), &bytes.Buffer{}, "xml", About{}, seq(nil, nil)); tool.AsError(
		err).Kind != tool.Invalid {
		t.Errorf("err = %v, want tool.AsError( err).Kind == tool.Invalid", err)
	}
}
