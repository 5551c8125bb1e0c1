package mcpserver

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// An order keeps the order in which the programs of each session were sent over a connection. The
// SDK handles all calls concurrently, and so loses it.
type order struct {
	mu     sync.Mutex
	lines  map[string]*lineUp // by session
	places map[any]*place     // by the id of the request
}

// A lineUp holds the programs of one session that have not yet joined its queue at the executor.
type lineUp struct {
	turns *queue.Turns
	n     int
}

type place struct {
	come  chan struct{}
	leave func()
	taken bool // its taker calls leave
}

// placeKey is the key in _meta that passes a request's id to callTool, to which the SDK doesn't
// pass it. A client's value is overwritten if the request has a place, and otherwise has no effect.
const placeKey = "biplane.dev/request"

// assignPlace assigns a place to a request that is a program of a session.
func (o *order) assignPlace(r *jsonrpc.Request, e envelope) {
	if r.Method != "tools/call" || e.name != "execute" && e.name != "biplane.execute" {
		return
	}
	args, ok := parseParts(e.args)
	session := stringValue(fieldOf(e.args, args, "session"))
	if !ok || session == "" {
		return
	}
	ms, _ := parseParts(r.Params)
	meta := fieldOf(r.Params, ms, "_meta")
	inner, ok := parseParts(meta)
	if !ok {
		meta, inner = json.RawMessage("{}"), nil
	}
	r.Params = replaceField(r.Params, ms, "_meta", replaceField(meta, inner, placeKey, e.id))

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

// placeOf returns the place of the request req, or nil if it has none.
func (o *order) placeOf(req *mcp.CallToolRequest) *tool.Place {
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

// forgetRequest forgets a request. If its place was not taken, it is left.
func (o *order) forgetRequest(id any) {
	o.mu.Lock()
	p := o.places[id]
	delete(o.places, id)
	left := p != nil && !p.taken
	o.mu.Unlock()
	if left {
		p.leave()
	}
}
