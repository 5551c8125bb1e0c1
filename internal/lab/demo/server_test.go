package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// exchange serves a kind on a fresh database, sends requests one after the other, and returns the
// responses by id.
func exchange(t *testing.T, kind string, requests ...string) map[string]message {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.db")
	db, err := openDatabase(path)
	if err != nil {
		t.Fatalf("openDatabase: %v", err)
	}
	if err := seedDatabase(t.Context(), db); err != nil {
		t.Fatalf("seedDatabase: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	in, requestsIn := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- Serve(t.Context(), kind, path, in, out)
		out.Close()
	}()
	got := map[string]message{}
	d := json.NewDecoder(answers)
	for _, r := range requests {
		if _, err := io.WriteString(requestsIn, r+"\n"); err != nil {
			t.Fatalf("io.WriteString: %v", err)
		}
		if !strings.Contains(r, `"id"`) {
			continue
		}
		var m message
		if err := d.Decode(&m); err != nil {
			t.Fatalf("Decode: %v", err)
		}
		got[string(m.ID)] = m
	}
	requestsIn.Close()
	if err := <-served; err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	return got
}

func TestProtocol(t *testing.T) {
	got := exchange(t, "crm",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"1999-01-01"}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":3,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":4,"method":"server/discover"}`,
		`{"jsonrpc":"2.0","id":"five","method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"nope"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_customer","arguments":{"id":"cus_9999"}}}`,
		`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"get_customer","arguments":{"idd":"cus_1001"}}}`,
		`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"list_customers","arguments":{"per_page":51}}}`,
		`{"id": nonsense`,
	)
	for id, want := range map[string]string{"1": `"2025-06-18"`, "2": `"2025-11-25"`, "3": `{}`,
		`"five"`: `"list_customers"`,
		"7":      `no customer \"cus_9999\"`, "8": `unknown field \"idd\"`, "9": "per_page is 1 to 50"} {
		if !strings.Contains(string(got[id].Result), want) {
			t.Errorf("%s: %s, want %s", id, got[id].Result, want)
		}
	}
	for id, code := range map[string]int{"4": -32601, "6": -32602, "null": -32700} {
		if e := got[id].Error; e == nil || e.Code != code {
			t.Errorf("%s: %+v, want %d", id, got[id], code)
		}
	}
	for _, id := range []string{"7", "8", "9"} {
		if !strings.Contains(string(got[id].Result), `"isError":true`) {
			t.Errorf("id = %s, got[id].Result = %s, want strings.Contains(string(got[id].Result), "+
				"`\"isError\":true`)", id, got[id].Result)
		}
	}
}

// TestTools calls every tool, and validates its results against its output schema.
func TestTools(t *testing.T) {
	arguments := map[string]map[string]string{
		"crm": {
			"list_customers":   `{"page":2,"per_page":50,"status":"active"}`,
			"search_customers": `{"query":"er","limit":3}`,
			"get_customer":     `{"id":"cus_1001"}`, "list_orders": `{"customer_id":"cus_1001","status":"paid"}`,
			"get_order":    `{"id":"ord_00001"}`,
			"list_notes":   `{"customer_id":"cus_1001"}`,
			"add_note":     `{"customer_id":"cus_1001","text":"Called.","author":"s.okoye"}`,
			"list_tickets": `{"status":"closed"}`, "get_ticket": `{"id":"tic_0001"}`,
			"list_invoices": `{"customer_id":"cus_1001"}`,
			"list_sessions": `{"customer_id":"cus_1001"}`, "revenue_report": `{"group_by":"region"}`,
		},
		"accounts": {
			"get_account":         `{"id":"cus_1001"}`,
			"deactivate_customer": `{"id":"cus_1001","reason":"requested","notify":true}`,
			"reactivate_customer": `{"id":"cus_1001","note":"again"}`,
			"update_contact":      `{"id":"cus_1001","email":"new@example.com"}`,
			"change_plan":         `{"id":"cus_1001","plan":"team"}`, "set_seats": `{"id":"cus_1001","seats":7}`,
			"assign_owner": `{"id":"cus_1001","owner":"s.okoye"}`,
			"add_tag":      `{"id":"cus_1001","tag":"x"}`, "remove_tag": `{"id":"cus_1001","tag":"x"}`,
			"pause_billing":  `{"id":"cus_1001","until":"2026-09-01"}`,
			"resume_billing": `{"id":"cus_1001"}`, "revoke_sessions": `{"id":"cus_1001"}`,
			"send_message": `{"id":"cus_1001","template":"renewal"}`,
			"list_changes": `{"customer_id":"cus_1001"}`,
		},
	}
	for _, kind := range Kinds {
		defs, handlers, err := toolsOf(kind)
		if err != nil {
			t.Fatalf("toolsOf: %v", err)
		}
		if len(defs) != len(handlers) {
			t.Errorf("%s: %d definitions, %d handlers", kind, len(defs), len(handlers))
		}
		var tools []toolDefinition
		var requests []string
		for i, raw := range defs {
			var d toolDefinition
			if err := json.Unmarshal(raw, &d); err != nil {
				t.Fatalf("json.Unmarshal: %v", err)
			}
			tools = append(tools, d)
			requests = append(requests,
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`,
					i, d.Name, arguments[kind][d.Name]))
		}
		got := exchange(t, kind, requests...)
		for i, d := range tools {
			t.Run(kind+"."+d.Name, func(t *testing.T) { d.check(t, arguments[kind][d.Name], got[fmt.Sprint(i)]) })
		}
	}
}

type toolDefinition struct {
	Name         string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
}

// check validates a call and its result against the definition.
func (d toolDefinition) check(t *testing.T, args string, got message) {
	valid(t, d.InputSchema, []byte(args))
	var r struct {
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(got.Result, &r); err != nil || r.IsError || len(r.Content) != 1 {
		t.Fatalf("err = %v, got.Result = %s, want err == nil && !r.IsError && len(r.Content) == 1", err, got.Result)
	}
	if r.Content[0].Text != string(r.StructuredContent) {
		t.Error("the text is not the structured result")
	}
	if d.OutputSchema != nil {
		valid(t, d.OutputSchema, r.StructuredContent)
	}
	if d.Description == "" {
		t.Error("no description")
	}
}

func valid(t *testing.T, schema, value []byte) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatalf("UnmarshalJSON: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:///s", doc); err != nil {
		t.Fatalf("AddResource: %v", err)
	}
	s, err := c.Compile("mem:///s")
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatalf("err = %v, value = %s, want err == nil", err, value)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("value = %s, err = %v, want nil", value, err)
	}
}

// TestSeed checks that the database is always the same, and has the expected number of inactive
// customers.
func TestSeed(t *testing.T) {
	ctx := t.Context()
	var all [2][]string
	for i := range all {
		db, err := openDatabase(filepath.Join(t.TempDir(), "c.db"))
		if err != nil {
			t.Fatalf("openDatabase: %v", err)
		}
		defer db.Close()
		for range i + 1 { // once more over itself
			if err := seedDatabase(ctx, db); err != nil {
				t.Fatalf("seedDatabase: %v", err)
			}
		}
		ids, err := expectedCustomers(ctx, db)
		if err != nil || len(ids) != inactiveCount {
			t.Fatalf("%d inactive, %v", len(ids), err)
		}
		quiet, err := queryColumn(ctx, db, "SELECT id FROM customers WHERE last_login_at < ?", formatTime(cutoff))
		if err != nil || len(quiet) != inactiveCount+decoyCount {
			t.Fatalf("%d quiet, %v", len(quiet), err)
		}
		if all[i], err = queryColumn(ctx, db, `SELECT json_array(c.id, c.name, c.email, c.last_login_at, o.id, `+
			`o.placed_at, o.items) FROM customers c JOIN orders o ON o.customer_id = c.id ORDER BY o.id`); err != nil {
			t.Fatalf("queryColumn: %v", err)
		}
		names, err := queryColumn(ctx, db, "SELECT DISTINCT name FROM customers")
		if err != nil || len(names) != customerCount {
			t.Errorf("%d names, %v", len(names), err)
		}
	}
	if len(all[0]) < customerCount || !reflect.DeepEqual(all[0], all[1]) {
		t.Errorf("differs: %d and %d records", len(all[0]), len(all[1]))
	}
}

// TestWrongState checks that an agent that does too little or too much is detected.
func TestWrongState(t *testing.T) {
	db, err := openDatabase(filepath.Join(t.TempDir(), "c.db"))
	if err != nil {
		t.Fatalf("openDatabase: %v", err)
	}
	defer db.Close()
	r := &runner{db: db, cfg: Config{Progress: io.Discard}}
	act := func(h handler, args ...string) func(*agent) error {
		return func(*agent) error {
			for _, a := range args {
				if _, err := h(t.Context(), db, json.RawMessage(a)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := r.resetDatabase(context.Background()); err != nil {
		t.Fatalf("resetDatabase: %v", err)
	}
	var all []string
	for _, id := range r.want.deactivated {
		all = append(all, `{"id":"`+id+`","reason":"inactive"}`)
	}
	if w, err := r.runWay(t.Context(), "right", nil, act(deactivateCustomer, all...)); err != nil ||
		w.Deactivated != inactiveCount {
		t.Fatalf("w = %v, err = %v, want err == nil && w.Deactivated == inactiveCount", w, err)
	}
	if _, err := r.runWay(t.Context(), "idle", nil, act(deactivateCustomer)); err == nil ||
		!strings.Contains(err.Error(), "wrong state") {
		t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "wrong state")`, err)
	}
	if _, err := r.runWay(t.Context(), "short", nil, act(deactivateCustomer, all[1:]...)); err == nil {
		t.Error("one missing was not found")
	}
	more := func(a *agent) error {
		if err := act(deactivateCustomer, all...)(a); err != nil {
			return err
		}
		return act(addTag, `{"id":"cus_1001","tag":"x"}`)(a)
	}
	if _, err := r.runWay(t.Context(), "more", nil, more); err == nil {
		t.Error("a change too many was not found")
	}
}
