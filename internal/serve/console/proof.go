package console

import (
	"net/http"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A proofData is the data of the page of a proof.
type proofData struct {
	Record string // whose proof it is; empty: the proof was pasted
	Proof  string
	Key    string            // with which it was checked
	Proved []proof.Inclusion // the leaves that it proves to be in the log
	Bad    string            // why the proof does not hold
}

// checkProof checks a proof with the key of the log, and nothing else of it.
func (d *proofData) checkProof() {
	var err error
	d.Proved, err = proof.CheckInclusion(d.Proof, d.Key)
	d.Bad = problemOf(err)
}

// proveRecord makes a proof that a record is in the log, and checks it. For a download, it answers
// with the proof as a file.
func proveRecord(v *visit) error {
	id, c := v.r.PathValue("record"), v.newClient()
	p, err := c.Audit().ProveRecord(v.r.Context(), id, "")
	if err != nil {
		return ownError(err)
	}
	if v.r.PostForm.Get("action") == "download" {
		h := v.w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		nameDownload(h, id+".proof")
		_, _ = v.w.Write([]byte(p.Proof)) // ignore errors of browsers that disconnected
		return nil
	}
	state, err := c.Audit().ReadState(v.r.Context())
	if err != nil {
		return ownError(err)
	}
	d := &proofData{Record: id, Proof: p.Proof, Key: state.Key}
	d.checkProof()
	v.renderPage(http.StatusOK, "proof.html", d)
	return nil
}

// showProofForm shows the form to check a proof.
func showProofForm(v *visit) error {
	state, err := v.newClient().Audit().ReadState(v.r.Context())
	if err != nil {
		return ownError(err)
	}
	v.renderPage(http.StatusOK, "proof.html", &proofData{Key: state.Key})
	return nil
}

// checkProofForm checks the proof of the form.
func checkProofForm(v *visit) error {
	if _, err := v.newClient().Audit().ReadState(v.r.Context()); err != nil { // only auditors use the page
		return ownError(err)
	}
	f := v.r.PostForm
	d := &proofData{Proof: strings.ReplaceAll(f.Get("proof"), "\r\n", "\n"), Key: strings.TrimSpace(f.Get("key"))}
	if d.Proof == "" || d.Key == "" {
		return tool.Errorf(tool.Invalid, "paste a proof, and the public key of the record")
	}
	d.checkProof()
	v.renderPage(http.StatusOK, "proof.html", d)
	return nil
}
