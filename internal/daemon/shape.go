package daemon

import (
	"encoding/json"
	"slices"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/shape"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/typegen"
)

// newShapes returns the Learner of the types of results.
func (d assembly) newShapes() *shape.Learner {
	on := d.cfg.Settings.ListObservedTypes()
	return shape.NewLearner(shape.Config{Store: d.store.OpenShapes(d.key), Reader: resultReader{}, Listener: d.Daemon,
		Off: on.Off, Upstreams: on.Upstreams, Log: d.log})
}

// UpdateShapes implements shape.Listener.
func (d *Daemon) UpdateShapes() { d.index.changes.Add(1) }

// A resultReader converts results to the values of programs.
type resultReader struct{}

// ReadValue implements shape.ValueReader.
func (resultReader) ReadValue(r *tool.Result) (json.RawMessage, error) {
	return values.Of("", r, func(values.Block, json.RawMessage) string { return "" })
}

// A describer writes the signatures of tools.
type describer struct{ shapes *shape.Learner }

// describeEntry returns the signature of an entry.
func (d describer) describeEntry(e *catalog.Entry, language string) catalog.Signature {
	write := typegen.Signature
	if language == "python" {
		write = typegen.PythonSignature
	}
	code, example, note := write(d.describeItem(e))
	return catalog.Signature{Code: code, Example: example, ResultNote: note}
}

// describeItem returns an entry with what was observed of its results.
func (d describer) describeItem(e *catalog.Entry) typegen.Item {
	it := typegen.Item{Tool: e.Tool, Names: typegen.Names{Namespace: e.Namespace, Member: e.Member}}
	if o := d.shapes.FindObservation(e.Tool); o.IsShown() {
		it.Observed = typegen.Observed{Schema: o.Shape.EncodeSchema(), Results: o.Results}
	}
	return it
}

// wireObservation returns the observation of a tool's results, or nil if nothing is shown.
func (d describer) wireObservation(t *tool.Tool) *api.ObservedResult {
	o := d.shapes.FindObservation(t)
	if !o.IsShown() {
		return nil
	}
	return &api.ObservedResult{Results: o.Results, Version: o.Version, Schema: o.Shape.EncodeSchema()}
}

// FindMissing implements program.Results.
func (d describer) FindMissing(e tool.Entry, path []string) (m program.Missing, ok bool) {
	entry, ok := e.(*catalog.Entry)
	if !ok {
		return m, false
	}
	o := d.shapes.FindObservation(entry.Tool)
	fields, ok := o.FindMissing(path)
	return program.Missing{Results: o.Results, Fields: fields}, ok
}

// goClients writes the clients of programs in Go.
type goClients struct{ *Daemon }

// WriteClient implements program.Clients.
func (d goClients) WriteClient(who tool.Principal, name string, uses func(string) bool) (string, []string) {
	spaces := map[string][]typegen.Item{}
	var names []string
	for _, e := range d.policies.visible(who).Entries() {
		if e.Tool.Upstream == tool.Own {
			continue
		}
		if len(spaces[e.Namespace]) == 0 {
			names = append(names, e.Namespace)
		}
		spaces[e.Namespace] = append(spaces[e.Namespace], describer{d.shapes}.describeItem(e))
	}
	slices.Sort(names)
	for i, space := range names {
		// The first of several namespaces has the plain name. Calls by path reach the others.
		names[i] = typegen.GoPackageName(space)
		if names[i] == name {
			return typegen.GoPackage(spaces[space], uses), nil
		}
	}
	return "", names
}
