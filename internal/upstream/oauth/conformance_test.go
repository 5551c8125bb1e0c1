//go:build unix

package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

// clientMode is the environment variable that makes this binary act as the suite's client.
const clientMode = "BIPLANE_TEST_CLIENT"

// TestMain runs the tests, or acts as the client that the conformance suite starts.
func TestMain(m *testing.M) {
	if os.Getenv(clientMode) == "" {
		os.Exit(m.Run())
	}
	if err := runClient(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// scenarios are the client scenarios on authorization of the MCP conformance suite, with the
// revisions they are run in.
var scenarios = map[string][]string{
	"auth/metadata-default":               {"2025-11-25", "2026-07-28"},
	"auth/metadata-var1":                  {"2025-11-25", "2026-07-28"},
	"auth/metadata-var2":                  {"2025-11-25", "2026-07-28"},
	"auth/metadata-var3":                  {"2025-11-25", "2026-07-28"},
	"auth/basic-cimd":                     {"2025-11-25", "2026-07-28"},
	"auth/scope-from-www-authenticate":    {"2025-11-25", "2026-07-28"},
	"auth/scope-from-scopes-supported":    {"2025-11-25", "2026-07-28"},
	"auth/scope-omitted-when-undefined":   {"2025-11-25", "2026-07-28"},
	"auth/scope-step-up":                  {"2025-11-25", "2026-07-28"},
	"auth/scope-retry-limit":              {"2025-11-25", "2026-07-28"},
	"auth/token-endpoint-auth-basic":      {"2025-11-25", "2026-07-28"},
	"auth/token-endpoint-auth-post":       {"2025-11-25", "2026-07-28"},
	"auth/token-endpoint-auth-none":       {"2025-11-25", "2026-07-28"},
	"auth/pre-registration":               {"2025-11-25", "2026-07-28"},
	"auth/resource-mismatch":              {"2026-07-28"},
	"auth/offline-access-scope":           {"2026-07-28"},
	"auth/offline-access-not-supported":   {"2026-07-28"},
	"auth/authorization-server-migration": {"2026-07-28"},
	"auth/iss-supported":                  {"2026-07-28"},
	"auth/iss-not-advertised":             {"2026-07-28"},
	"auth/iss-supported-missing":          {"2026-07-28"},
	"auth/iss-wrong-issuer":               {"2026-07-28"},
	"auth/iss-unexpected":                 {"2026-07-28"},
	"auth/iss-normalized":                 {"2026-07-28"},
	"auth/metadata-issuer-mismatch":       {"2026-07-28"},

	"auth/2025-03-26-oauth-metadata-backcompat": {"2025-03-26"},
	"auth/2025-03-26-oauth-endpoint-fallback":   {"2025-03-26"},

	"auth/client-credentials-basic":         {"2026-07-28"},
	"auth/client-credentials-jwt":           {"2026-07-28"},
	"auth/enterprise-managed-authorization": {"2026-07-28"},
	"auth/dpop":                             {"2026-07-28"},
	"auth/dpop-nonce":                       {"2026-07-28"},
	"auth/wif-jwt-bearer":                   {"2026-07-28"},
}

// TestConformance runs the scenarios. Those in testdata/conformance.yaml must fail, for the reasons
// stated there.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	node, suite := peertest.Node(t), peertest.Module(t, "@modelcontextprotocol/conformance/dist/index.js")
	exe, err := os.Executable()
	if err != nil {
		t.Fatalf("os.Executable: %v", err)
	}
	failing, err := filepath.Abs("testdata/conformance.yaml")
	if err != nil {
		t.Fatalf("filepath.Abs: %v", err)
	}
	for scenario, revisions := range scenarios {
		for _, revision := range revisions {
			t.Run(scenario+" "+revision, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), node, suite, "client", "--command", exe, "--scenario", scenario,
					"--spec-version", revision, "--force", "--verbose", "--expected-failures", failing)
				cmd.Dir = t.TempDir()
				cmd.Env = append(os.Environ(), clientMode+"=1", "GORACE=atexit_sleep_ms=0")
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "Test Results:") {
					t.Errorf("err = %v, out = %s, want err == nil && strings.Contains(string(out), "+
						"\"Test Results:\")", err, out)
				}
			})
		}
	}
}

// runClient is the client that the suite starts: an upstream that does what the scenario requires,
// and signs in if necessary.
func runClient(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	changed := make(chan struct{}, 1)
	url := args[len(args)-1]
	cfg := mcp.Config{Name: "suite", URL: url, Type: "http", OnChange: func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}}
	p, closeStore, err := newPerson(ctx, "biplane", url)
	if err != nil {
		return err
	}
	defer closeStore()
	cfg.Auth = p.client
	u, err := mcp.New(cfg)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- u.Run(running) }()
	defer func() { stop(); <-done }()
	ready := func() error {
		for s := u.Snapshot(); s.Health.State != tool.Ready; s = u.Snapshot() {
			if s.Health.State == tool.NeedsSignIn {
				if err := p.signIn(ctx); err != nil {
					return err
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return fmt.Errorf("not ready: %+v", s.Health)
			}
		}
		return nil
	}
	if err := ready(); err != nil {
		return err
	}
	for _, c := range u.Snapshot().Tools {
		call := &tool.Call{Tool: c, Arguments: json.RawMessage(`{}`)}
		res, err := u.Call(ctx, call)
		for err != nil && strings.Contains(err.Error(), "biplane connect") {
			if err := p.signIn(ctx); err != nil {
				return err
			}
			if err := ready(); err != nil {
				return err
			}
			res, err = u.Call(ctx, call)
		}
		if err != nil {
			return err
		}
		fmt.Println(c.Name, string(res.Raw))
	}
	return nil
}

// A person signs in without a prompt, as the suite's servers expect.
type person struct {
	client *oauth.Client
	signs  int // number of sign-ins
}

// document is the metadata document that the suite expects as client_id if it is supported.
const document = "https://conformance-test.local/client-metadata.json"

// newPerson returns a person whose Client has its own store in dir.
func newPerson(ctx context.Context, dir, url string) (*person, func(), error) {
	cfg := oauth.Config{Name: "suite", URL: url, ClientID: document}
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given) == nil && given.ID != "" {
		cfg.ClientID, cfg.ClientSecret = given.ID, given.Secret
		var err error
		if cfg.Issuer, err = issuer(ctx, url); err != nil {
			return nil, nil, err
		}
	}
	s, err := store.Open(ctx, store.Config{Path: dir})
	if err != nil {
		return nil, nil, err
	}
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		return nil, nil, err
	}
	cfg.Store = s.Tokens(key)
	c, err := oauth.New(cfg)
	return &person{client: c}, func() { s.Close() }, err
}

// issuer returns the authorization server named by the suite's server. The client is assumed to be
// registered there.
func issuer(ctx context.Context, server string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.Replace(server, "/mcp", "/.well-known/oauth-protected-resource/mcp", 1), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var meta struct {
		Servers []string `json:"authorization_servers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&meta); err != nil || len(meta.Servers) == 0 {
		return "", nil // another kind of scenario
	}
	return meta.Servers[0], nil
}

// signIn does what `biplane connect` and a browser do. It gives up after several refusals.
func (p *person) signIn(ctx context.Context) error {
	if p.signs++; p.signs > 3 {
		return errors.New("signed in often enough")
	}
	f, err := p.client.Begin(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintln(os.Stderr, "open", f.URL)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(resp.Request.URL.String(), f.Redirect) {
		return fmt.Errorf("the browser ended at %s: %s", resp.Request.URL, page)
	}
	return f.Wait(ctx)
}
