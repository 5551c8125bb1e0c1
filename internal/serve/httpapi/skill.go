package httpapi

import (
	"context"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Skills holds the modules that programs have saved; implemented by *skill.Shelf.
type Skills interface {
	List(ctx context.Context, p tool.Principal) ([]skill.Info, error)
	Get(ctx context.Context, p tool.Principal, name string) (*skill.Info, error)
	Share(ctx context.Context, p tool.Principal, name string, shared bool) error
	Remove(ctx context.Context, p tool.Principal, name string) error
}

// skillRoutes serves the skills.
type skillRoutes struct{ skills Skills }

func (h *skillRoutes) listSkills(w http.ResponseWriter, r *http.Request) {
	all, err := h.skills.List(r.Context(), principalOf(r))
	if err != nil {
		writeError(w, err)
		return
	}
	out := make([]api.Skill, len(all))
	for i := range all {
		out[i] = wireSkill(&all[i])
	}
	writeList(w, r, out, func(k *api.Skill) string { return k.Owner + "/" + k.Name })
}

func (h *skillRoutes) showSkill(w http.ResponseWriter, r *http.Request) {
	k, err := h.skills.Get(r.Context(), principalOf(r), r.PathValue("skill"))
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, wireSkill(k))
}

func (h *skillRoutes) shareSkill(w http.ResponseWriter, r *http.Request) {
	answerDone(w, h.skills.Share(r.Context(), principalOf(r), r.PathValue("skill"), true))
}

func (h *skillRoutes) unshareSkill(w http.ResponseWriter, r *http.Request) {
	answerDone(w, h.skills.Share(r.Context(), principalOf(r), r.PathValue("skill"), false))
}

func (h *skillRoutes) removeSkill(w http.ResponseWriter, r *http.Request) {
	answerDone(w, h.skills.Remove(r.Context(), principalOf(r), r.PathValue("skill")))
}

func wireSkill(i *skill.Info) api.Skill {
	return api.Skill{
		Name: i.Name, Owner: i.Owner, Own: i.Own, Description: i.Description, Signatures: i.Signatures,
		Import: i.Import, Size: i.Size,
		Shared: i.Shared, Changed: i.Changed, Modified: i.Modified, Source: i.Source,
	}
}
