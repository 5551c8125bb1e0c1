package catalog

import (
	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A deed is the known action of a tool, or the action that a query asks for.
type deed uint8

const (
	anyDeed deed = iota
	reading
	writing
	deleting
)

// deedOfTool returns the deed of a tool, from its upstream's statement or its route.
func deedOfTool(t *tool.Tool) deed {
	switch _, r := splitRoute(t.Description); {
	case r.deletes:
		return deleting
	case t.Annotations.ReadOnly == nil:
		return anyDeed
	case *t.Annotations.ReadOnly:
		return reading
	}
	return writing
}

// deedOfQuery returns the deed that a query asks for by its first word: agents write "delete a
// branch".
func deedOfQuery(words []string) deed {
	if len(words) == 0 {
		return anyDeed
	}
	switch w := words[0]; {
	case readingWords.Has(w):
		return reading
	case writingWords.Has(w):
		return writing
	case deletingWords.Has(w):
		return deleting
	}
	return anyDeed
}

var (
	readingWords = lazily.Words(`list show get find read view see search check download export fetch look who which what
	how when where count compare watch preview describe inspect browse query retrieve`)
	writingWords = lazily.Words(`create add open make set put write upload change update edit rename modify replace
	patch merge close cancel run start stop mark assign invite fork star follow send post comment reply request approve
	reject protect enable disable scale attach pay refund confirm capture void resume issue record transfer move copy
	push publish trigger schedule register save submit book order lock unlock pin archive restore import generate
	deploy execute`)
	deletingWords = lazily.Words(`delete remove erase drop destroy purge clear revoke unstar unfollow detach`)
)
