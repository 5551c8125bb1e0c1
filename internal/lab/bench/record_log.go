package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// recordLog measures a large audit log: how fast it grows, the time to verify and to prove it, and
// its size on disk.
func (r *runner) recordLog(ctx context.Context) (_ []Figure, err error) {
	dir := filepath.Join(r.dir, "data-record-log")
	s, err := store.Open(ctx, store.Config{Path: dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(), os.RemoveAll(dir)) }()
	key, err := secret.Open(filepath.Join(r.dir, "key"))
	if err != nil {
		return nil, err
	}
	stored, err := s.Audit(ctx, key)
	if err != nil {
		return nil, err
	}
	signer, err := stored.Signer(ctx, "")
	if err != nil {
		return nil, err
	}
	log := audit.New(audit.Config{Store: stored, Key: key, Signer: signer})
	n := 1_000_000
	if r.cfg.Quick {
		n = 2000
	}
	grown, err := fillLog(ctx, log, n)
	if err != nil {
		return nil, err
	}
	checkpoint, err := log.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	proved, err := r.measureProofs(ctx, log, checkpoint)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	report, err := log.Verify(ctx, checkpoint.Text)
	if err != nil {
		return nil, err
	}
	verified := durationFigure("record_verify", []time.Duration{time.Since(start)})
	if !report.OK() || report.Records != int64(n) || report.Covered != report.Size {
		return nil, fmt.Errorf("the record does not verify: %+v", report)
	}
	size, err := bytesBelow(dir)
	if err != nil {
		return nil, err
	}
	figures := []Figure{grown, verified, proved, numberFigure("record_bytes", float64(size)/float64(n))}
	figures[3].N = n
	return figures, nil
}

// fillLog records n calls, begin and end, many at once. It returns the rate per second, in ten
// samples.
func fillLog(ctx context.Context, log *audit.Log, n int) (Figure, error) {
	yes := true
	answer := tool.Text(false, "done")
	tools := make([]*tool.Tool, 50)
	for i := range tools {
		tools[i] = &tool.Tool{Upstream: fmt.Sprintf("upstream-%d", i%5), Name: fmt.Sprintf("tool_%d", i),
			Annotations: tool.Annotations{ReadOnly: &yes}}
	}
	one := func(i int) error {
		e, err := log.Begin(ctx, &tool.Call{
			ID: fmt.Sprintf("call_%d", i), By: &tool.Program{Execution: fmt.Sprintf("ex_%d", i/10)},
			Tool: tools[i%len(tools)], Arguments: fmt.Appendf(nil, `{"text":"call %d"}`, i),
			Principal: tool.Principal{ID: fmt.Sprintf("local:user-%d", i%97), Client: "agent/1.2.3"},
		}, audit.Decision{Effect: "allow", Policy: "open", Reason: "the open policy allows every call"})
		if err != nil {
			return err
		}
		return e.End(ctx, answer, nil)
	}
	const parts = 10
	var all []float64
	var next atomic.Int64
	for part := range parts {
		end := int64(n * (part + 1) / parts)
		begun := next.Load()
		start := time.Now()
		errs := make([]error, many)
		var wg sync.WaitGroup
		for w := range many {
			wg.Go(func() {
				for errs[w] == nil {
					i := next.Add(1) - 1
					if i >= end {
						next.Add(-1)
						return
					}
					errs[w] = one(int(i))
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return Figure{}, err
		}
		all = append(all, float64(end-begun)/time.Since(start).Seconds())
	}
	return numberFigure("record_append_per_second", all...), nil
}

// measureProofs measures the proof that one record is in the log.
func (r *runner) measureProofs(ctx context.Context, log *audit.Log, checkpoint *proof.Checkpoint) (Figure, error) {
	found, err := log.Records(ctx, audit.Query{Principal: "local:user-42", Limit: 100})
	if err != nil || len(found) == 0 {
		return Figure{}, errors.Join(err, errors.New("there is nobody's record"))
	}
	i := 0
	took, err := repeatCalls(ctx, r.countRounds(500), func() error {
		i++
		text, err := log.Prove(ctx, found[i%len(found)].ID, checkpoint.Text)
		if err != nil {
			return err
		}
		_, err = proof.CheckInclusion(text, log.Public())
		return err
	})
	if err != nil {
		return Figure{}, err
	}
	return durationFigure("record_prove", took), nil
}

func bytesBelow(dir string) (n int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && !fi.IsDir() {
			n += fi.Size()
		}
	}
	return n, err
}
