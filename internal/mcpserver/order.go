package mcpserver

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An order knows in which order the programs of each session were sent over a connection. The SDK
// handles all calls at once, and so forgets it.
type order struct {
	mu     sync.Mutex
	lines  map[string]*lineUp // by session
	places map[any]*place     // by the id of the request
}

// A lineUp is the programs of one session that have not begun to wait for it at the executor.
type lineUp struct {
	turns *queue.Turns
	n     int
}

type place struct {
	come  chan struct{}
	leave func()
	taken bool // whoever took it leaves it
}

// placeKey is where a request says its id to callTool, which the SDK doesn't tell it. What a client
// writes there is overwritten in what has a place, and means nothing in what has none.
const placeKey = "biplane.dev/request"

// sent gives a request its place, if it is a program of a session.
func (o *order) sent(r *jsonrpc.Request, e envelope) {
	if r.Method != "tools/call" || e.name != "execute" && e.name != "biplane.execute" {
		return
	}
	args, ok := parts(e.args)
	session := text(field(e.args, args, "session"))
	if !ok || session == "" {
		return
	}
	ms, _ := parts(r.Params)
	meta := field(r.Params, ms, "_meta")
	inner, ok := parts(meta)
	if !ok {
		meta, inner = json.RawMessage("{}"), nil
	}
	r.Params = replace(r.Params, ms, "_meta", replace(meta, inner, placeKey, e.id))

	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lines[session]
	if l == nil {
		l = &lineUp{turns: queue.NewTurns(1)}
		o.lines[session] = l
	}
	l.n++
	come := l.turns.Join()
	o.places[r.ID.Raw()] = &place{come: come, leave: sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if l.n--; l.n == 0 {
			delete(o.lines, session)
		}
		l.turns.Leave(come)
	})}
}

// of gives the place of the request that callTool has; nil: it has none.
func (o *order) of(req *mcp.CallToolRequest) *tool.Place {
	id, err := jsonrpc.MakeID(req.Params.Meta[placeKey])
	if o == nil || err != nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.places[id.Raw()]
	if p == nil {
		return nil
	}
	return &tool.Place{Come: p.come, Take: func() func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		p.taken = true
		return p.leave
	}}
}

// answered forgets a request. A place that nobody took is left.
func (o *order) answered(id any) {
	o.mu.Lock()
	p := o.places[id]
	delete(o.places, id)
	left := p != nil && !p.taken
	o.mu.Unlock()
	if left {
		p.leave()
	}
}
