package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/approval"
)

// decided has many requests, newest first.
type decided struct {
	fake
	all []approval.Request
}

func (d *decided) List(context.Context, approval.Query) ([]approval.Request, error) {
	return d.all, nil
}

// TestCompareManyRequests checks that each request is compared with the newest that can be. It
// would run for minutes if each comparison read the long arguments again.
func TestCompareManyRequests(t *testing.T) {
	long := json.RawMessage("[" + strings.Repeat("1,", 8000) + "1]")
	d := &decided{}
	for i := range comparedRequests {
		d.all = append(d.all, approval.Request{ID: fmt.Sprint(i), Tool: "a.b", State: approval.Approved,
			Principal: "key:ann", Arguments: long})
	}
	d.all[comparedRequests-1].Arguments = json.RawMessage(`{"a":1}`)
	v := &visit{server: New(Config{Approvals: d}), who: ann, r: httptest.NewRequest(http.MethodGet, "/", nil)}
	var all []shown
	for range maxTogether {
		c := shown{Request: approval.Request{Tool: "a.b", State: approval.Pending}}
		c.Text, c.Cut = indentArguments(json.RawMessage(`{"a":2}`))
		all = append(all, c)
	}
	if err := compareRequests(v, all); err != nil {
		t.Fatalf("compareRequests: %v", err)
	}
	for i, c := range all {
		if c.Earlier == nil || c.Earlier.ID != fmt.Sprint(comparedRequests-1) || len(c.Earlier.Lines) != 4 {
			t.Fatalf("request %d is compared with %+v, want the last one", i, c.Earlier)
		}
	}
}
