package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestEndNamesEachRequest ends relayed connections at any moment: of the requests that the last
// message says were read, each was either accepted or left to the next process.
func TestEndNamesEachRequest(t *testing.T) {
	for round := range 500 {
		var out bytes.Buffer
		c := &conn{srv: &Server{}, relayed: true, out: lineWriter{w: &out}, pending: map[any]bool{},
			limits: Limits{Body: 1 << 10}, order: &order{lines: map[string]*lineUp{}, places: map[any]*place{}}}
		accepted := 0
		begun := make(chan struct{})
		var reading sync.WaitGroup
		reading.Go(func() {
			for i := range 40 {
				if i == 20 {
					close(begun)
				}
				text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
				if c.decodeLine(line{text: []byte(text)}) != nil {
					accepted++
				}
			}
		})
		<-begun
		c.tellEnd()
		reading.Wait()
		var m struct{ Params api.StdioEndParams }
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatalf("the last message is %s: %v", out.Bytes(), err)
		}
		if got := m.Params.Read - len(m.Params.Left); got != accepted {
			t.Fatalf("round %d: %d requests were read and not left, want the %d that were accepted", round, got,
				accepted)
		}
	}
}
