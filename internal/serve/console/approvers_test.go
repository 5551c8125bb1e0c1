package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// approvals implements API with a list of requests, newest first.
type approvals []api.Approval

func (approvals) MayUse(tool.Principal, string) bool { return true }

func (a approvals) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	text, _ := tool.Marshal(a)
	_, _ = w.Write(text)
}

// TestApproversOfManyCalls checks that each call gets its own request, also if the requests are in
// the opposite order. Comparing each call with each request would take minutes.
func TestApproversOfManyCalls(t *testing.T) {
	const many = 500
	var all approvals
	d := &executionData{ExecutionDetail: &api.ExecutionDetail{}}
	for i := range many {
		args := func(n int, space string) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{"text":%s"%s%d"}`, space, strings.Repeat("x", 15<<10), n))
		}
		all = append(all, api.Approval{ID: fmt.Sprint("ap_", i), Tool: "shop.add_item", State: "approved",
			Arguments: args(i, " ")})
		d.Rows = append(d.Rows, &callRow{ExecutionCall: api.ExecutionCall{Tool: "shop_add_item", Decision: "ask",
			Arguments: args(i, "")}})
	}
	v := &visit{server: New(Config{Approvals: &fake{}}), r: httptest.NewRequest(http.MethodGet, "/", nil),
		access: Access{API: all}}
	addApprovers(v, d)
	for i, r := range d.Rows {
		if want := fmt.Sprint("ap_", i); r.Approval != want {
			t.Fatalf("call %d has request %q (%s), want %s", i, r.Approval, d.ApproverBad, want)
		}
	}
}
