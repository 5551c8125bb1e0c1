package daemon_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// copyRig is a daemon with sandboxes, some with labels.
type copyRig struct {
	*tierRig
	own api.SandboxClient
}

func newCopyRig(t *testing.T, policies, more string) copyRig {
	r, own := newOwnRig(t, policies, more)
	return copyRig{r, own}
}

// runCommand runs a command in a sandbox, and returns its output.
func (r copyRig) runCommand(sandbox, command string) string {
	r.t.Helper()
	v, err := r.own.UseSandbox(r.t.Context(), sandbox, "run", api.SandboxOperation{Command: command})
	if err != nil || v.Exit == nil || v.Exit.Status != 0 {
		r.t.Fatalf("%s: %+v, %v", command, v, err)
	}
	return v.Stdout
}

func (r copyRig) createSandbox(name, image string) {
	r.t.Helper()
	if _, err := r.own.CreateSandbox(r.t.Context(), api.OwnSandboxRequest{Name: name, Image: image}); err != nil {
		r.t.Fatalf("CreateSandbox: %v", err)
	}
}

// TestImageFromSandbox builds an image of what was installed in a sandbox, and another of a sandbox
// with that image. Programs import the packages.
func TestImageFromSandbox(t *testing.T) {
	r := newCopyRig(t, "", "")
	c := r.d.Client()
	r.createSandbox("first", "")
	r.runCommand("first", `v=$(python3 -c 'import site; print(site.getusersitepackages())')
mkdir -p "$v/greeting" .local/bin && echo 'word = "hello"' > "$v/greeting/__init__.py"
printf '#!/bin/sh\necho tool' > .local/bin/greet; chmod +x .local/bin/greet
ln -s /etc/passwd "$v/leak.py"; mkfifo "$v/pipe"; echo private > notes
(while :; do date +%N > beat; done) >/dev/null 2>&1 &`)
	made, err := c.CopyImage(t.Context(), "made", api.ImageCopyRequest{Sandbox: "first"})
	if err != nil || made.From == "" || len(made.Notes) == 0 || made.State != api.ImageReady {
		t.Fatalf("CopyImage: %+v, %v", made, err)
	}
	x := runWithImage(t, c, "python", "", "import greeting\ngreeting.word")
	if x.Error != nil || string(x.Value) != `"hello"` || x.Image != "made" {
		t.Errorf("a program that imports the package: %s, %+v, image %q", x.Value, x.Error, x.Image)
	}
	x = runWithImage(t, c, "bash", "made", "greet; find / -xdev -name notes -o -xdev -name leak.py 2>/dev/null; true")
	if string(x.Value) != `"tool"` {
		t.Errorf("a script in the image: %s, %+v; want the tool, and no other file of the sandbox", x.Value, x.Error)
	}
	r.runCommand("first", `a=$(cat beat); until [ "$(cat beat)" != "$a" ]; do :; done`) // its processes run again

	r.createSandbox("second", "made")
	r.runCommand("second", `mkdir pack && cd pack
echo '{"name": "counted", "version": "1.0.0", "main": "i.js"}' > package.json
echo 'exports.n = 41' > i.js && npm pack --silent >/dev/null && cd .. && echo {} > package.json
npm install --no-audit --no-fund --offline --silent ./pack/counted-1.0.0.tgz`)
	if _, err := c.CopyImage(t.Context(), "both", api.ImageCopyRequest{Sandbox: "second"}); err != nil {
		t.Fatalf("CopyImage: %v", err)
	}
	x = runWithImage(t, c, "javascript", "both", "return require('counted').n + 1")
	if x.Error != nil || string(x.Value) != "42" {
		t.Errorf("a program that requires the package: %s, %+v", x.Value, x.Error)
	}
	x = runWithImage(t, c, "python", "both", "import greeting\ngreeting.word")
	if x.Error != nil || string(x.Value) != `"hello"` {
		t.Errorf("with the image of an image: %s, %+v", x.Value, x.Error)
	}
}

// TestImageFromSandboxRefused checks that labels keep a sandbox from becoming an image, that only
// its owner who is an admin can build one, and that all of it is on the record.
func TestImageFromSandboxRefused(t *testing.T) {
	url, _ := web(t)
	r := newCopyRig(t, "permit (principal, action, resource);", "auth: { keys: true }\n"+
		"network: { private: [127.0.0.0/8] }\n"+
		"tools: { box.put: { labels: [pii] } }\n")
	c := r.d.Client()
	for _, name := range []string{"work", "open", "private"} {
		s, err := r.own.CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: name, Network: true})
		if err != nil {
			t.Fatalf("CreateSandbox: %+v, %v", s, err)
		}
		r.runCommand(name, "mkdir -p node_modules/a && echo 1 > node_modules/a/index.js")
	}
	r.runCommand("open", "curl -sSf --noproxy '' -x http://127.0.0.1:3128 "+url+"/json")
	x := execute(t, c, `const v = await callTool("box.put", {});
await callTool("biplane.sandbox_write", { sandbox: "private", path: "node_modules/a/data", text: JSON.stringify(v) });`)
	if x.Error != nil {
		t.Fatalf("a program that writes private data into a sandbox: %+v", x.Error)
	}
	bob := clientOf(r.d, makeKey(t, r.d, api.KeyRequest{Name: "bob", Scopes: []string{"api"}}))
	for _, x := range []struct {
		c         *api.Client
		image     string
		sandbox   string
		untrusted bool
		want      string // of the error; empty: an image is built
	}{
		{bob, "a", "work", false, "admin"},
		{c, "a", "other", false, `you have no sandbox "other"`},
		{c, "No Name", "work", false, `invalid name "No Name"`},
		{c, "a", "private", false, "data with the labels pii, which must not reach an image"},
		{c, "a", "private", true, "data with the labels pii, which must not reach an image"},
		{c, "a", "open", false, "build the image with --untrusted"},
		{c, "a", "open", true, ""},
		{c, "a", "work", false, ""},
	} {
		i, err := x.c.CopyImage(t.Context(), x.image, api.ImageCopyRequest{Sandbox: x.sandbox, Untrusted: x.untrusted})
		if (x.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("an image %q of %q: %+v, %v; want %q", x.image, x.sandbox, i, err, x.want)
		}
	}
	records, err := c.Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "session"})
	if err != nil {
		t.Fatalf("ListRecords: %v", err)
	}
	seen := map[string]int{}
	for _, rec := range records {
		if rec.Detail["action"] == "build image" {
			seen[rec.Name+" "+rec.Detail["part"]+" "+rec.Outcome+" "+rec.Detail["labels"]]++
		}
	}
	want := map[string]int{"a intent ok ": 5, "a  failed pii": 2,
		"a  failed untrusted": 1, "a  ok untrusted": 1, "a  ok ": 1}
	if !maps.Equal(seen, want) {
		t.Errorf("the record has %v, want %v", seen, want)
	}
}
