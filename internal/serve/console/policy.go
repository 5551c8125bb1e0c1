package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	policyFormPath  = "/policy/edit"
	policyFormBytes = 1 << 20 // a file of the largest size, escaped
	editPolicyRoute = "PUT /policy/files"
)

// A policyEdit is the data of the page of a policy file.
type policyEdit struct {
	*api.PolicyFiles
	Name, Text string // of the file that is edited
	Days       string // of the record that are replayed
	Report     *api.PolicyReport
	Replay     *api.PolicyReplay
	Notice     string
	MaySave    bool
}

// showPolicyFile shows a file of the policies in force, to edit.
func showPolicyFile(v *visit) error {
	files, err := api.PolicyFolder{Client: v.newClient()}.ReadFiles(v.r.Context())
	if err != nil {
		return ownError(err)
	}
	q := v.r.URL.Query()
	d := &policyEdit{PolicyFiles: files, Name: q.Get("file"), Days: "7"}
	if d.Name == "" && !q.Has("new") && len(files.Files) > 0 {
		d.Name = files.Files[0].Name
	}
	if i := slices.IndexFunc(files.Files, func(f api.PolicyFile) bool { return f.Name == d.Name }); i >= 0 {
		d.Text = files.Files[i].Text
		d.Notice = noticeHidden(d.Text)
	} else if d.Name != "" {
		return tool.Errorf(tool.NotFound, "there is no file %s among the policies", tool.VisibleLine(d.Name))
	}
	d.MaySave = files.Fixed == "" && d.Notice == "" && v.mayUse(editPolicyRoute)
	v.renderPage(http.StatusOK, "policy-edit.html", d)
	return nil
}

// noticeHidden says that a file can't be edited on the page, since the form would change it: it
// shows hidden characters in another way, and a browser replaces some. It is empty if the file can.
func noticeHidden(text string) string {
	for i, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if tool.Visible([]byte(line)) != line {
			return fmt.Sprintf("Line %d has characters that can't be seen, here written as \\u and a number. "+
				"Edit this file outside of the console.", i+1)
		}
	}
	return ""
}

// editPolicy shows the mistakes in changed policies, and what they would have decided on recorded
// calls. It saves them only after it has shown this for the same text.
func editPolicy(v *visit) error {
	f, c, ctx := v.r.PostForm, v.newClient(), v.r.Context()
	d, next, err := readPolicyForm(v)
	if err != nil {
		return err
	}
	if d.Report, err = c.Policies().Check(ctx, next); err != nil {
		return ownError(err)
	}
	if f.Get("action") == "save" && d.Notice == "" && d.Report.Version != "" && f.Get("seen") == d.Report.Version {
		_, err := api.PolicyFolder{Client: c}.EditFile(ctx,
			api.PolicyEdit{Digest: d.Digest, File: api.PolicyFile{Name: d.Name, Text: d.Text}})
		if err == nil {
			http.Redirect(v.w, v.r, "/policy", http.StatusSeeOther)
			return nil
		}
		d.Notice = problemOf(err)
	} else if f.Get("action") == "save" && d.Notice == "" {
		d.Notice = "Nothing was saved: see first what this text would have decided."
	}
	if len(d.Report.Problems) == 0 {
		days := parseNumber(d.Days, 0)
		if days < 1 || days > 366 {
			return tool.Errorf(tool.Invalid, "days must be a number from 1 to 366")
		}
		if d.Replay, err = c.Policies().Replay(ctx, api.PolicyReplayRequest{Files: next,
			Since: time.Now().UTC().AddDate(0, 0, -days)}); err != nil {
			return ownError(err)
		}
	}
	v.renderPage(http.StatusOK, "policy-edit.html", d)
	return nil
}

// readPolicyForm returns the content of the form, and the policies with the file in it.
func readPolicyForm(v *visit) (*policyEdit, []api.PolicyFile, error) {
	f := v.r.PostForm
	files, err := api.PolicyFolder{Client: v.newClient()}.ReadFiles(v.r.Context())
	if err != nil {
		return nil, nil, ownError(err)
	}
	d := &policyEdit{PolicyFiles: files, Name: strings.TrimSpace(f.Get("file")), Days: cmp.Or(f.Get("days"), "7"),
		Text: strings.ReplaceAll(f.Get("text"), "\r\n", "\n"), MaySave: files.Fixed == "" && v.mayUse(editPolicyRoute)}
	if strings.TrimSpace(d.Text) == "" {
		d.Text = ""
	}
	if hidden := noticeHidden(d.Text); hidden != "" {
		return nil, nil, tool.Errorf(tool.Invalid, "%s", hidden)
	}
	for _, was := range files.Files {
		if was.Name == d.Name && noticeHidden(was.Text) != "" {
			d.Notice, d.MaySave = noticeHidden(was.Text), false
		}
	}
	if d.Name == "" {
		return nil, nil, tool.Errorf(tool.Invalid, "the file needs a name, such as mail.cedar")
	}
	next := files.WithFile(api.PolicyFile{Name: d.Name, Text: d.Text})
	if len(next) == 0 {
		return nil, nil, tool.Errorf(tool.Invalid, "there would be no policies, and every call would be denied: "+
			"nothing was changed")
	}
	if digest := f.Get("digest"); digest != files.Digest {
		d.Digest, d.Notice = digest, "The policies have changed since you opened this page. To save, copy your text, "+
			"open the page again, and repeat your change."
	}
	return d, next, nil
}
