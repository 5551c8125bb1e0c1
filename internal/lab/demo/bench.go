package demo

import (
	"context"
	"database/sql"
	_ "embed" // the definitions
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

//go:embed bench.json
var benchTools []byte

// Bench is the kind of the server used for measurements: its tools do nothing, or wait.
const Bench = "bench"

func benchHandlers() map[string]handler {
	var waiting atomic.Int64
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	return map[string]handler{
		"read":  giveBack,
		"write": giveBack,
		"wait":  waitMilliseconds,
		"hold": func(ctx context.Context, _ *sql.DB, _ json.RawMessage) (any, error) {
			waiting.Add(1)
			defer waiting.Add(-1)
			select {
			case <-released:
			case <-ctx.Done():
			}
			return map[string]bool{"released": true}, nil
		},
		"held": func(context.Context, *sql.DB, json.RawMessage) (any, error) {
			return map[string]int64{"held": waiting.Load()}, nil
		},
		"release": func(context.Context, *sql.DB, json.RawMessage) (any, error) {
			release()
			return map[string]bool{"released": true}, nil
		},
	}
}

func giveBack(_ context.Context, _ *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		Text string `json:"text"`
	}
	err := decodeArguments(args, &in)
	return in, err
}

func waitMilliseconds(ctx context.Context, _ *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		MS int `json:"ms"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	if in.MS < 0 || in.MS > 10_000 {
		return nil, tool.Errorf(tool.Invalid, "ms is 0 to 10000")
	}
	timer := time.NewTimer(time.Duration(in.MS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return map[string]int{"waited": in.MS}, nil
}
