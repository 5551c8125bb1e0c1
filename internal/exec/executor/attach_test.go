package executor_test

import (
	"context"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/journal"
)

// TestFilesAfterADeath checks that attached files are available to a program that continues in
// another process, and in its session afterwards.
func TestFilesAfterADeath(t *testing.T) {
	t.Parallel()
	went := 0
	for dies := 2; dies <= 8; dies += 2 {
		s := newScene(t, nil)
		s.stop()
		s.start(dies)
		over := make(chan error, 1)
		go func() {
			_, _, err := s.execute(map[string]any{"session": "s",
				"files": []map[string]string{{"path": "a/in.txt", "text": "sent"}}, "code": `
import { readFile, writeFile } from "node:fs/promises";
for (const n of [1, 2, 3, 4]) await box.read({ n });
await writeFile("out.txt", await readFile("workspace/a/in.txt", "utf8") + "!");
return await readFile("out.txt", "utf8");`})
			over <- err
		}()
		finished := false
		select {
		case <-s.dead.died:
		case <-over:
			finished = true
		}
		s.crash(0)
		if !finished {
			<-over
		}
		all, err := s.x.Executions(context.Background(), s.who, journal.Query{})
		if err != nil {
			t.Fatalf("Executions: %v", err)
		}
		for _, e := range all {
			if d := s.ended(e.ID); d.State != journal.Done || string(d.Value) != `"sent!"` {
				t.Errorf("dies at %d: %s %s %s %+v", dies, d.State, d.Value, d.Why, d.Error)
			}
		}
		if len(all) > 0 {
			went++
			_, res, err := s.execute(map[string]any{"session": "s",
				"code": `import { readFile } from "node:fs/promises"; await readFile("workspace/a/in.txt", "utf8")`})
			if err != nil {
				t.Fatalf("execute: %v", err)
			}
			if got := textsOf(t, res)[0]; got != `"sent"` {
				t.Errorf("dies at %d: the session has %s", dies, got)
			}
		}
		s.stop()
	}
	if went == 0 {
		t.Error("no execution was journaled before its process died")
	}
}
