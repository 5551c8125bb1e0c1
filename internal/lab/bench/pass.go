package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/lab/demo"
)

// clients is the number of clients that call a gateway at once.
const clients = 16

// passed is a part of the description of the demonstration's tool read. Every gateway passes it on.
const passed = "Returns the text, and is marked as read-only."

// errNotBehind explains why the cost of a gateway's call can't be measured.
var errNotBehind = errors.New("it doesn't list the tool read of biplane demo serve bench: configure that as its server")

// A gatewayClient is a session with a gateway.
type gatewayClient interface {
	CallTool(ctx context.Context, name string, args any) (string, error)
	ListDefinitions(ctx context.Context) ([]string, error)
	Close() error
}

// openSession performs the handshake with a gateway. It starts a gateway that has a command.
func (g Gateway) openSession(ctx context.Context) (gatewayClient, error) {
	if g.URL != "" {
		return dialWeb(ctx, g.URL)
	}
	return demo.Connect(ctx, g.Argv)
}

// Close ends the session.
func (s *web) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

// ListDefinitions returns what a client shows a model of each tool, as JSON.
func (s *web) ListDefinitions(ctx context.Context) ([]string, error) {
	return demo.ListDefinitions(ctx, s)
}

// findReadTool returns the name of the demonstration's tool read among the definitions of a
// gateway's tools, or "".
func findReadTool(defs []string) string {
	for _, d := range defs {
		var def struct{ Name string }
		if strings.Contains(d, passed) && json.Unmarshal([]byte(d), &def) == nil {
			return def.Name
		}
	}
	return ""
}

// measurePass measures calls of a server behind a gateway: one after the other, and from many
// clients at once.
func (r gatewayRunner) measurePass(ctx context.Context) ([]Figure, error) {
	g, s := r.gateway, r.session
	name := findReadTool(r.defs)
	if name == "" {
		return nil, errNotBehind
	}
	call := func(s gatewayClient) error {
		text, err := s.CallTool(ctx, name, map[string]string{"text": "x"})
		if err == nil && !strings.Contains(text, `"x"`) {
			err = fmt.Errorf("%s answered %.100q, without its argument", name, text)
		}
		return err
	}
	if _, err := repeatCalls(ctx, r.countRounds(50), func() error { return call(s) }); err != nil { // warm up
		return nil, err
	}
	took, err := repeatCalls(ctx, r.countRounds(500), func() error { return call(s) })
	if err != nil {
		return nil, err
	}
	free := make(chan gatewayClient, clients) // sessions: over HTTP each client has its own
	for range clients {
		if g.URL == "" {
			free <- s
			continue
		}
		own, err := g.openSession(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = own.Close() }()
		free <- own
	}
	rate, err := measureRate(ctx, g.Name+"_pass_per_second", clients, r.measuringTime(4*time.Second), func() error {
		own := <-free
		defer func() { free <- own }()
		return call(own)
	})
	if err != nil {
		return nil, err
	}
	return []Figure{durationFigure(g.Name+"_pass", took), rate}, nil
}

// measureSize measures the memory of a gateway and its servers.
func (r gatewayRunner) measureSize(ctx context.Context) Figure {
	g := r.gateway
	name := g.Name + "_memory_bytes"
	pid := g.pid
	if d, ok := r.session.(*demo.Session); ok {
		pid = d.PID()
	}
	if pid == 0 {
		var err error
		if pid, err = findListener(g.URL); err != nil {
			return missingFigures(err.Error(), name)[0]
		}
	}
	v, err := r.idleMemory(ctx, pid)
	if err != nil {
		return missingFigures(err.Error(), name)[0]
	}
	return numberFigure(name, v)
}

// measureSelf measures Biplane in mode direct in the same way as the gateways that the user named,
// over stdio and over HTTP.
func (r *runner) measureSelf(ctx context.Context) (err error) {
	file, err := r.writeConfig("direct", demo.Bench)
	if err != nil {
		return err
	}
	r.measureYardsticks(ctx, Gateway{Name: "biplane", Argv: r.commandLine("mcp", "--config", file, "--data-dir",
		filepath.Join(r.dir, "data-pass"), "--log-level", "error")})
	s, err := r.startServer(ctx, file, "data-pass-http")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopServer(s.cmd)) }()
	r.measureYardsticks(ctx, Gateway{Name: "biplane_http", URL: s.url, pid: s.cmd.Process.Pid})
	return nil
}

// A server is a running biplane serve.
type server struct {
	cmd *exec.Cmd
	url string // of its MCP endpoint
}

// startServer starts biplane serve, and waits until it is ready for connections.
func (r *runner) startServer(ctx context.Context, config, data string) (*server, error) {
	argv := r.commandLine("serve", "--listen",
		"127.0.0.1:0", "--config", config, "--data-dir", filepath.Join(r.dir, data), "--log-level", "error")
	var said bytes.Buffer
	cmd := newCommand(ctx, argv, &said)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(io.LimitReader(out, 1000)).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("biplane serve printed no address: %.300s", said.String()), stopServer(cmd))
	}
	return &server{cmd, strings.TrimSpace(address) + "/mcp"}, nil
}

// writeConfig writes a configuration with servers of the demonstration, and returns its path.
func (r *runner) writeConfig(mode string, kinds ...string) (file string, err error) {
	servers := map[string]demo.StdioServer{}
	for _, kind := range kinds {
		argv := r.commandLine(append(append([]string{}, r.cfg.ServeArgs...),
			kind, filepath.Join(r.dir, "customers.db"))...)
		servers[kind] = demo.StdioServer{Args: argv[1:], Command: argv[0]}
	}
	text, err := json.Marshal(demo.ServeConfig{Servers: servers, Mode: mode, Policy: "open", StartWait: "30s"})
	if err != nil {
		return "", err
	}
	file = filepath.Join(r.dir, mode+".json")
	return file, os.WriteFile(file, text, 0o600)
}
