package bench

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// many is the number of concurrent calls to the audit log.
const many = 64

// measureRecords measures the audit log in a store on the disk that holds temporary files.
func (r *runner) measureRecords(ctx context.Context) (_ []Figure, err error) {
	s, err := store.Open(ctx, store.Config{Path: filepath.Join(r.dir, "data-records")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		return nil, err
	}
	stored, err := s.Audit(ctx, key)
	if err != nil {
		return nil, err
	}
	log := audit.New(audit.Config{Store: stored, Key: key})
	yes, no := true, false
	answer := tool.Text(false, "done")
	var out []Figure
	for _, c := range []struct {
		name     string
		readOnly *bool
	}{{"record_write", &no}, {"record_read", &yes}} {
		call := &tool.Call{
			ID: "call", Path: "bench.write", Arguments: []byte(`{"text":"x"}`),
			Principal: tool.Principal{ID: "local:bench"},
			Tool: &tool.Tool{Upstream: "bench", Name: "write",
				Annotations: tool.Annotations{ReadOnly: c.readOnly}},
		}
		do := func() error {
			e, err := log.Begin(ctx, call, audit.Decision{Effect: "allow"})
			if err != nil {
				return err
			}
			return e.End(ctx, answer, nil)
		}
		took, err := repeatCalls(ctx, r.countRounds(200), do)
		if err != nil {
			return nil, err
		}
		often, err := measureRate(ctx, c.name+"_64_per_second", many, r.measuringTime(1500*time.Millisecond), do)
		if err != nil {
			return nil, err
		}
		out = append(out, durationFigure(c.name, took), often)
	}
	for _, more := range []func(context.Context) ([]Figure, error){r.recordCost, r.recordLog} {
		figures, err := more(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, figures...)
	}
	return out, nil
}
