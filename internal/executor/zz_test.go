package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/executor"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestZZ(t *testing.T) {
	mb, _ := strconv.Atoi(os.Getenv("MB"))
	n := mb << 20
	row := `{"id":12345,"name":"some name of it","tags":["a","b"],"ok":true},`
	for name, res := range map[string]*tool.Result{
		"text":   tool.Text(false, strings.Repeat("word ", n/5)),
		"uni":    tool.Text(false, strings.Repeat("wörd ", n/6)),
		"struct": must(tool.ParseResult([]byte(`{"content":[],"structuredContent":{"rows":[` + strings.Repeat(row, n/len(row)) + `1]}}`))),
		"str":    must(tool.ParseResult([]byte(`{"content":[],"structuredContent":{"text":"` + strings.Repeat("word ", n/5) + `"}}`))),
	} {
		if w := os.Getenv("WHICH"); w != "" && w != name {
			continue
		}
		r := newRig(t, answers{"get": func(_ context.Context, c *tool.Call) (*tool.Result, error) { return res, nil }}, func(c *executor.Config) { c.Limits.CPU = time.Minute })
		b := time.Now()
		texts, _ := r.run("const x = await box.get({}); typeof x")
		fmt.Printf("%-8s %d MB %8s %.100s\n", name, mb, time.Since(b).Round(time.Millisecond), texts[0])
	}
}

func must(r *tool.Result, err error) *tool.Result {
	if err != nil {
		panic(err)
	}
	return r
}

var _ = json.Marshal
