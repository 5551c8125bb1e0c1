package config

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Reports configures what a process reports to users and operators.
type Reports struct {
	Notify    Notify
	Telemetry Telemetry
}

// Telemetry configures traces, the access log and the listener for administrators.
type Telemetry struct {
	OTLP      string            // where traces are sent, with its path; empty: nowhere
	Headers   map[string]string // of the requests to it
	Sample    float64           // share of traces that are recorded, from 0 to 1
	AccessLog bool              // requests over the network are logged
	Admin     string            // loopback host:port for profiles and metrics; empty: none
}

// ShownTelemetry is the printable form of a Telemetry.
type ShownTelemetry struct {
	OTLP      string  `json:"otlp,omitempty"`
	Sample    float64 `json:"sample"`
	AccessLog bool    `json:"access_log"`
	Admin     string  `json:"admin,omitempty"`
}

// showTelemetry returns the printable form.
func (t *Telemetry) showTelemetry() ShownTelemetry {
	return ShownTelemetry{OTLP: t.OTLP, Sample: t.Sample, AccessLog: t.AccessLog, Admin: t.Admin}
}

// The environment variables of OpenTelemetry that count where the file says nothing.
const (
	endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"
	headersVariable  = "OTEL_EXPORTER_OTLP_HEADERS"
)

// tracesPath is the path of a collector for traces.
const tracesPath = "/v1/traces"

// setEnvironment sets what the environment says about traces.
func (t *Telemetry) setEnvironment(env func(string) (string, bool)) {
	if t.OTLP != "" {
		return
	}
	endpoint, _ := env(endpointVariable)
	u, err := url.Parse(endpoint)
	if endpoint == "" || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return
	}
	t.OTLP = u.JoinPath(tracesPath).String()
	headers, _ := env(headersVariable)
	if t.Headers != nil {
		headers = ""
	} else {
		t.Headers = map[string]string{}
	}
	for pair := range strings.SplitSeq(headers, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			if plain, err := url.PathUnescape(strings.TrimSpace(value)); err == nil {
				t.Headers[strings.TrimSpace(name)] = plain
			}
		}
	}
}

func readTelemetry(r *reader, n *node, t *Telemetry) {
	r.readObject(n, "telemetry", key{
		"otlp": func(n *node) {
			u, err := url.Parse(r.readText(n, "telemetry.otlp"))
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				r.addProblem(n, "telemetry.otlp must be the address of a collector, such as http://127.0.0.1:4318")
				return
			}
			if u.Path == "" || u.Path == "/" {
				u.Path = tracesPath
			}
			t.OTLP = u.String()
		},
		"headers":    func(n *node) { t.Headers = r.readHeaders(n, "telemetry") },
		"sample":     func(n *node) { t.Sample = readShare(r, n, "telemetry.sample") },
		"access_log": func(n *node) { t.AccessLog = r.readBool(n, "telemetry.access_log") },
		"admin":      func(n *node) { t.Admin = readLoopback(r, n, "telemetry.admin") },
	})
}

// readShare reads a number from 0 to 1.
func readShare(r *reader, n *node, what string) float64 {
	share, err := strconv.ParseFloat(r.readText(n, what), 64)
	if err != nil || !(share >= 0 && share <= 1) {
		r.addProblem(n, "%s must be a number from 0 to 1", what)
		return 0
	}
	return share
}

// readLoopback reads an address that only this machine reaches.
func readLoopback(r *reader, n *node, what string) string {
	text := r.readText(n, what)
	host, _, err := net.SplitHostPort(text)
	ip, ipErr := netip.ParseAddr(host)
	if err != nil || host != "localhost" && (ipErr != nil || !ip.IsLoopback()) {
		r.addProblem(n, "%s must be an address of this machine only, such as 127.0.0.1:6060", what)
	}
	return text
}
