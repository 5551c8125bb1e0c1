package biplane_test

import (
	"encoding/json"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/serve/metrics"
	"github.com/biplane-dev/biplane/internal/tool"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	return string(text)
}

func readYAML(t *testing.T, name, text string, v any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%s is not valid: %v\n%s", name, err, text)
	}
}

type fixedGauges struct{}

func (fixedGauges) UpstreamStates() map[string]tool.State {
	return map[string]tool.State{"peer": tool.Ready}
}
func (fixedGauges) ExecutionLoad() (running, queued int) { return 0, 0 }
func (fixedGauges) PendingApprovals() int                { return 0 }
func (fixedGauges) HasReloadProblem() bool               { return false }
func (fixedGauges) CheckpointFailures() map[string]int   { return map[string]int{"file": 0} }

// TestDashboardAndAlerts checks that each metric that the dashboard and the alerts name exists.
func TestDashboardAndAlerts(t *testing.T) {
	r := metrics.New(metrics.Config{Catalog: catalog.New(catalog.Config{}), Gauges: fixedGauges{}})
	w := httptest.NewRecorder()
	r.Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	kinds := map[string]string{"up": "gauge"} // of Prometheus itself
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(w.Body.String(), -1) {
		kinds[m[1]] = m[2]
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	readYAML(t, "alerts.yaml", readFile(t, "deploy/alerts.yaml"), &rules)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, "deploy/grafana-dashboard.json")), &board); err != nil {
		t.Fatalf("grafana-dashboard.json: %v", err)
	}
	exprs := map[string]string{}
	for _, rule := range rules.Groups[0].Rules {
		if exprs[rule.Alert] = rule.Expr; rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
			t.Errorf("the alert %s has no severity or no summary", rule.Alert)
		}
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			exprs[p.Title] += target.Expr + "\n"
		}
	}
	name := regexp.MustCompile(`\b(?:up|biplane_\w+|process_\w+|go_\w+)\b`)
	for title, expr := range exprs {
		found := name.FindAllString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", title)
		}
		for _, m := range found {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(m, "_bucket"), "_sum"), "_count")
			if strings.HasSuffix(m, "_fds") && runtime.GOOS != "linux" {
				continue
			}
			if kinds[m] == "" && kinds[base] != "histogram" {
				t.Errorf("%s names the metric %s, which doesn't exist", title, m)
			}
		}
	}
	for family := range kinds {
		if strings.HasPrefix(family, "biplane_") && family != "biplane_build_info" &&
			!slices.ContainsFunc(board.Panels, func(p struct {
				Title   string
				Targets []struct{ Expr string }
			}) bool {
				return strings.Contains(exprs[p.Title], family)
			}) {
			t.Errorf("the dashboard doesn't show %s", family)
		}
	}
}

// renderChart renders the templates of the chart, and returns the objects by their kinds.
func renderChart(t *testing.T, dir string, values map[string]any) map[string]map[string]any {
	t.Helper()
	funcs := template.FuncMap{
		"quote": func(s string) string { b, _ := json.Marshal(s); return string(b) },
		"indent": func(n int, s string) string {
			space := strings.Repeat(" ", n)
			return space + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+space)
		},
		"toYaml": func(v any) (string, error) { b, err := yaml.Marshal(v); return string(b), err },
	}
	kinds := map[string]map[string]any{}
	err := filepath.WalkDir(dir+"/templates", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		tmpl, err := template.New(path).Funcs(funcs).Option("missingkey=error").Parse(readFile(t, path))
		if err != nil {
			return err
		}
		var out strings.Builder
		data := map[string]any{"Values": values, "Release": map[string]any{"Name": "test"}}
		if err := tmpl.Execute(&out, data); err != nil {
			return err
		}
		if strings.HasSuffix(path, ".yaml") {
			var object map[string]any
			readYAML(t, path, out.String(), &object)
			kinds[object["kind"].(string)] = object
		}
		return nil
	})
	if err != nil {
		t.Fatalf("render the chart: %v", err)
	}
	return kinds
}

// TestChart renders the chart with its values, and without a Secret, and checks the results.
func TestChart(t *testing.T) {
	const dir = "deploy/helm/biplane"
	var values map[string]any
	readYAML(t, "values.yaml", readFile(t, dir+"/values.yaml"), &values)
	text, _ := values["config"].(string)
	noEnv := func(string) (string, bool) { return "", false }
	if _, err := config.Parse("/etc/biplane/biplane.yaml", []byte(text), noEnv, tool.WASM); err != nil {
		t.Errorf("the chart's configuration: %v", err)
	}
	for _, secret := range []string{"", "biplane"} {
		values["environmentSecret"] = secret
		kinds := renderChart(t, dir, values)
		checkPod(t, kinds["StatefulSet"], secret)
		data, _ := kinds["ConfigMap"]["data"].(map[string]any)
		if data["biplane.yaml"] != text {
			t.Errorf("the ConfigMap has the configuration %q, want %q", data["biplane.yaml"], text)
		}
		if kinds["Service"] == nil {
			t.Error("the chart has no Service")
		}
	}
}

// checkPod checks a StatefulSet, whose container has the variables of a Secret, or none.
func checkPod(t *testing.T, object map[string]any, secret string) {
	t.Helper()
	var pod struct {
		Spec struct {
			Replicas int
			Template struct {
				Spec struct {
					Containers []struct {
						Args    []string
						EnvFrom []struct {
							SecretRef struct{ Name string } `yaml:"secretRef"`
						} `yaml:"envFrom"`
						VolumeMounts []struct{ Name, MountPath string } `yaml:"volumeMounts"`
					}
					Volumes []struct{ Name string }
				}
			}
		}
	}
	whole, err := yaml.Marshal(object)
	if err != nil {
		t.Fatalf("yaml.Marshal: %v", err)
	}
	readYAML(t, "the StatefulSet", string(whole), &pod)
	c := pod.Spec.Template.Spec.Containers
	if pod.Spec.Replicas != 1 || len(c) != 1 || c[0].Args[0] != "serve" || len(c[0].VolumeMounts) != 3 {
		t.Errorf("the StatefulSet is %+v, want one replica of serve with three volumes", pod)
	}
	if from := c[0].EnvFrom; len(from) > 1 || (len(from) == 1) != (secret != "") ||
		secret != "" && from[0].SecretRef.Name != secret {
		t.Errorf("the variables come from %+v, want the Secret %q", from, secret)
	}
}

// TestComposeAndUnit checks the compose file and the unit of systemd.
func TestComposeAndUnit(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			ReadOnly bool `yaml:"read_only"`
			Build    struct{ Dockerfile string }
			Volumes  []string
		}
		Volumes map[string]any
	}
	readYAML(t, "compose.yaml", readFile(t, "deploy/compose.yaml"), &compose)
	s := compose.Services["biplane"]
	if _, ok := compose.Volumes["biplane"]; !s.ReadOnly || !ok || len(s.Volumes) != 2 {
		t.Errorf("the service is %+v, want a read-only root and two volumes", s)
	}
	if _, err := os.Stat(s.Build.Dockerfile); err != nil {
		t.Errorf("the service's Dockerfile: %v", err)
	}
	section, keys := "", map[string]string{}
	for line := range strings.Lines(readFile(t, "deploy/biplane.service")) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = line
		case !ok || section == "" || keys[section+key] != "":
			t.Errorf("the unit has the line %q", line)
		default:
			keys[section+key] = value
		}
	}
	for key, want := range map[string]string{"Type": "notify", "KillMode": "mixed", "NoNewPrivileges": "yes"} {
		if keys["[Service]"+key] != want {
			t.Errorf("the unit has %s=%s, want %s", key, keys["[Service]"+key], want)
		}
	}
	if !strings.HasPrefix(keys["[Service]ExecStart"], "/usr/local/bin/biplane serve ") {
		t.Errorf("the unit starts %s", keys["[Service]ExecStart"])
	}
}
