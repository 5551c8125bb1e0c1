//go:build unix

package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A rawPeer is a scripted server that violates the protocol, and never re-encodes what it receives.
type rawPeer struct {
	mode      string
	out       io.Writer
	seen      []string // methods
	cancelled []string // request ids
	asked     map[string]chan string
	first     *rawMessage // the first call of a pair
}

// A rawMessage is a message as received.
type rawMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Cursor    string          `json:"cursor"`
		RequestID json.RawMessage `json:"requestId"`
		Version   string          `json:"protocolVersion"`
		State     json.RawMessage `json:"requestState"`
		Answers   json.RawMessage `json:"inputResponses"`
		Meta      struct {
			Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// runRawPeer is the main function of the test binary if BIPLANE_TEST_PEER is raw:<mode>.
func runRawPeer(mode string) {
	p := &rawPeer{mode: mode, out: os.Stdout, asked: map[string]chan string{}}
	switch mode {
	case "stubborn": // must be killed
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		defer func() { select {} }()
	case "sleep":
		time.Sleep(time.Hour)
	case "broken": // never works
		fmt.Fprintln(os.Stderr, "\x1b[31mError:\x1b[0m no configuration")
		os.Exit(3)
	case "babble": // no MCP server at all
		for {
			if _, err := fmt.Println("usage: peer [-x] file"); err != nil {
				os.Exit(4)
			}
		}
	case "drone":
		for {
			if _, err := fmt.Print("....................................."); err != nil {
				os.Exit(4)
			}
		}
	case "slowstart":
		time.Sleep(time.Second) // longer than the timeout of a probe
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			p.take(line)
		}
		if err != nil {
			return
		}
	}
}

func (p *rawPeer) line(format string, a ...any) { fmt.Fprintf(p.out, format+"\n", a...) }

// take handles one message.
func (p *rawPeer) take(line []byte) {
	var m rawMessage
	if err := json.Unmarshal(line, &m); err != nil {
		p.line(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)
		return
	}
	p.handle(m)
}

func (p *rawPeer) handle(m rawMessage) {
	p.seen = append(p.seen, m.Method)
	switch m.Method {
	case "server/discover":
		p.discover(m)
	case "initialize":
		p.initialize(m)
	case "tools/list":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, rawList(p.mode, m.Params.Cursor))
	case "resources/list": // without an end
		var page []string
		for i := range 300 {
			page = append(page, fmt.Sprintf(`{"uri":"x://%s/%d","name":"n"}`, m.Params.Cursor, i))
		}
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"resources":[%s],"nextCursor":"%s+"}}`, m.ID,
			strings.Join(page, ","), m.Params.Cursor)
	case "resources/templates/list":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"resourceTemplates":7}}`, m.ID)
	case "prompts/list":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"prompts":[null,7,{"name":""},{"name":"a\u202eb"},`+
			`{"name":"big","description":"%s"},{"name":"good","description":"x\u202ey"},{"name":"good"}]}}`,
			m.ID, strings.Repeat("x", 1<<16))
	case "notifications/cancelled":
		p.cancelled = append(p.cancelled, string(m.Params.RequestID))
	case "tools/call":
		p.call(m)
	case "ping":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case "":
		answer := string(m.Result)
		if len(m.Error) > 0 {
			answer = string(m.Error)
		}
		if c := p.asked[string(m.ID)]; c != nil {
			c <- answer
		}
	}
}

func (p *rawPeer) discover(m rawMessage) {
	switch p.mode {
	case "modern":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},`+
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","version":"1"}}}}`, m.ID)
	case "silent", "mute": // drops unknown messages
	case "strict": // exits when the first message is not initialize
		os.Exit(1)
	default:
		p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
	}
}

func (p *rawPeer) initialize(m rawMessage) {
	version := m.Params.Version
	switch p.mode {
	case "mute":
		return
	case "modern":
		p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		return
	case "old": // refuses instead of answering with its own revision
		if version != "2024-11-05" {
			p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unsupported protocol version"}}`, m.ID)
			return
		}
	case "older":
		version = "2025-03-26"
	case "future":
		version = "2031-01-01"
	}
	more := ""
	if p.mode == "offers" {
		more = `,"resources":{},"prompts":{}`
	}
	p.line(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}%s},`+
		`"serverInfo":{"name":"raw","version":"1"}}}`, m.ID, version, more)
}

// rawList returns one page of tools.
func rawList(mode, cursor string) string {
	const tools = `"tools":[{"name":"echo"}]`
	switch mode {
	case "endless":
		return fmt.Sprintf(`{"tools":[{"name":"t%s"}],"nextCursor":"%sx"}`, cursor, cursor)
	case "samecursor":
		return `{` + tools + `,"nextCursor":"again"}`
	case "unlistable":
		return `{"tools":17}`
	case "definitions":
		return strings.ReplaceAll(definitions, "\n", " ")
	}
	return `{` + tools + `}`
}

// definitions is a list in which some tools are invalid.
var definitions = `{"tools":[
	{"name":"good","title":"Good","description":"d","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}},
	 "outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":"no","idempotentHint":null},"x":1.0},
	{"name":"no schema"},
	{"name":"null schema","inputSchema":null},
	{"name":"untyped","inputSchema":{"properties":{}}},
	{"name":"types","inputSchema":{"type":["object","null"]},"outputSchema":"none","annotations":[]},
	{"name":"wörter/mit.punkt","inputSchema":{"type":"object"},"title":7,"description":[]},
	{"name":"good","inputSchema":{"type":"object"}},
	{"inputSchema":{"type":"object"}},
	{"name":""},
	{"name":"control\u0007","inputSchema":{"type":"object"}},
	{"name":"bidi\u202e","inputSchema":{"type":"object"}},
	{"name":"` + strings.Repeat("n", 300) + `"},
	{"name":"string schema","inputSchema":"object"},
	{"name":"array type","inputSchema":{"type":"array"}},
	{"name":"true schema","inputSchema":true},
	{"name":"deep schema","inputSchema":` + strings.Repeat(`{"items":`, 200) + `{}` + strings.Repeat(`}`, 200) + `},
	{"name":"big","inputSchema":{"type":"object","description":"` + strings.Repeat("b", 2<<20) + `"}},
	{"name":"task","execution":{"taskSupport":"required"}},
	17, null, "tool", [],
	{"name":"shady","title":"a\u001b[31mb","description":"c\u202ed\udb40\udc41","annotations":{"title":"e\u200bf","readOnlyHint":true},
	 "inputSchema":{"type":"object","properties":{"a":{"description":"g\u2066h","enum":["one","two\u200b"]}}}},
	{"name":"shady argument","inputSchema":{"type":"object","properties":{"a\u202e":{}}}}
]}`

// rawAnswer returns the answer to a call of the tool echo: its arguments, byte for byte, are the
// result.
func rawAnswer(m rawMessage) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, m.Params.Arguments)
}

const fine = `{"content":[{"type":"text","text":"fine"}]}`

// call handles a call, according to the tool's name.
func (p *rawPeer) call(m rawMessage) {
	ok := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, fine)
	switch name := m.Params.Name; name {
	case "echo":
		p.line("%s", rawAnswer(m))
	case "never":
	case "fail -32603", "fail -32000":
		p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"it broke"}}`, m.ID,
			strings.TrimPrefix(name, "fail "))
	case "go deaf": // it lives, but stops reading
		p.line("%s", ok)
		<-time.After(time.Hour) // a hanging process exits eventually
	case "garbage":
		p.line("Listening on port 3000\n[info] "+
			"started\n\x1b[2J\x1b[31mred\x1b[0m\n\n\r\n{\n{\"jsonrpc\":\"2.0\",\"id\":\n}\nnull\n7\n\"x\"\n[1,2]\n[]\n{}\n{\"a\":1}\n\xff\xfe\x00\xf0\n%s", ok)
	case "wrong ids":
		for _, id := range []string{"999999", `"7"`, `"x"`, "null", "-1", "1.5", "[]", "{}", "true", "1e400", "0"} {
			p.line(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"wrong"}]}}`, id)
			p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"wrong"}}`, id)
		}
		p.line("%s", ok)
	case "twice":
		p.line("%s\n%s\n%s", ok, strings.Replace(ok, "fine", "second", 1), strings.Replace(ok, "fine", "third", 1))
	case "huge":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":"%s"}}`, m.ID, strings.Repeat("h", 3<<20))
	case "huge, id last":
		p.line(`{"result":{"content":[],"x":"%s"},"jsonrpc":"2.0","id":%s}`, strings.Repeat("h", 3<<20), m.ID)
	case "deep":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":%s%s}`, m.ID, strings.Repeat(`{"a":`, 50000),
			`1`+strings.Repeat("}", 50000))
	case "batch":
		p.line(`[{"jsonrpc":"2.0","method":"notifications/message","params":{}},17,%s]`, ok)
	case "crlf":
		fmt.Fprint(p.out, "\xef\xbb\xbf  "+ok+" \r\n")
	case "slowly":
		for _, c := range []byte(ok + "\n") {
			_, _ = p.out.Write([]byte{c})
		}
	case "odd error":
		p.line(`{"jsonrpc":"2.0","id":%s,"error":"it is broken"}`, m.ID)
	case "odder error":
		p.line(`{"id":%s,"error":{"code":"ENOENT","message":"no such file"}}`, m.ID)
	case "no result":
		p.line(`{"jsonrpc":"2.0","id":%s}`, m.ID)
	case "no version":
		p.line("%s", strings.Replace(ok, `"jsonrpc":"2.0",`, "", 1))
	case "result is a list", "result is null", "result is text", "content is text":
		v := map[string]string{"result is a list": `[]`, "result is null": `null`, "result is text": `"x"`,
			"content is text": `{"content":"x"}`}[name]
		p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, v)
	case "asks":
		go p.ask(m)
	case "ask":
		go p.askThis(m)
	case "ask often":
		go p.askOften(m)
	case "pair": // the second of two calls at once makes it ask
		if p.first == nil {
			p.first = &m
			return
		}
		go p.askPair(*p.first, m)
	case "ask modern": // its arguments are the questions
		if len(m.Params.Answers) > 0 {
			p.line("%s", ok)
			return
		}
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":%s}}`, m.ID,
			m.Params.Arguments)
	case "flood":
		for i := range 20000 {
			p.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`,
				m.ID, i)
			p.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			p.line(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
		}
		p.line("%s", ok)
	case "half":
		fmt.Fprint(p.out, ok[:len(ok)/2])
		os.Exit(0)
	case "die":
		fmt.Fprintln(os.Stderr, "fatal: \x1b[1mout of luck\x1b[0m")
		os.Exit(3)
	case "close output":
		_ = os.Stdout.Close()
	case "report":
		b, _ := json.Marshal(map[string]any{"content": []any{}, "seen": p.seen, "cancelled": p.cancelled,
			"env": os.Environ(), "pgid": syscall.Getpgrp(), "pid": os.Getpid()})
		p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, b)
	case "orphan":
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), peerMode+"=raw:sleep")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":%q}}`, m.ID, err)
			return
		}
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"pid":%d}}`, m.ID, c.Process.Pid)
	case "bad link":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"a":{`+
			`"method":"elicitation/create","params":{"mode":"url","message":"m","url":"javascript:alert(1)"}}}}}`, m.ID)
	case "input", "endless input":
		if name == "input" && len(m.Params.Answers) > 0 {
			p.line(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"state":null,"answers":%s,"capabilities":%s}}`,
				m.ID, m.Params.Answers, m.Params.Meta.Capabilities)
			return
		}
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required",`+
			`"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"Which account?"}}}}}`, m.ID)
	case "again":
		if len(m.Params.State) == 0 {
			p.line(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":"s \u00e9 1"}}`,
				m.ID)
			return
		}
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[],"state":%s,"arguments":%s}}`,
			m.ID, m.Params.State, m.Params.Arguments)
	case "again and again":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":"s"}}`, m.ID)
	case "task":
		p.line(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":"1"}}`, m.ID)
	default:
		p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unknown tool: %s"}}`, m.ID, name)
	}
}

// askThis sends a form, and answers with the client's response.
func (p *rawPeer) askThis(m rawMessage) {
	b, _ := json.Marshal(map[string]any{"content": []any{}, "answer": p.askForm(`"this-` + string(m.ID) + `"`)})
	p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, b)
}

// askForm sends a form, and returns the client's response.
func (p *rawPeer) askForm(id string) string {
	c := make(chan string, 1)
	p.asked[id] = c
	p.line(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}`, id)
	return <-c
}

// askOften sends more forms than a server may, and answers with the responses.
func (p *rawPeer) askOften(m rawMessage) {
	var answers []string
	for i := range tool.MaxRounds + 5 {
		answers = append(answers, p.askForm(fmt.Sprintf(`"often-%d"`, i)))
	}
	b, _ := json.Marshal(map[string]any{"content": []any{}, "answers": answers})
	p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, b)
}

// askPair sends a form while two calls are under way, and answers both with the response.
func (p *rawPeer) askPair(first, second rawMessage) {
	b, _ := json.Marshal(map[string]any{"content": []any{}, "answer": p.askForm(`"pair"`)})
	for _, m := range []rawMessage{first, second} {
		p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, b)
	}
}

// ask sends every request that a server may send, and answers with the responses.
func (p *rawPeer) ask(m rawMessage) {
	var answers []string
	for i, method := range []string{"ping", "roots/list", "sampling/createMessage", "elicitation/create", "no/such"} {
		id := fmt.Sprintf(`"ask-%d"`, i)
		c := make(chan string, 1)
		p.asked[id] = c
		p.line(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, id, method)
		answers = append(answers, <-c)
	}
	b, _ := json.Marshal(map[string]any{"content": []any{}, "answers": answers})
	p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, b)
}
