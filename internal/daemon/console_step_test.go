package daemon_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

var stepLink = regexp.MustCompile(`href="(/executions/[^"]*)" rel="next"`)

// TestConsoleSteps steps through an execution by its links, from its start to its end.
func TestConsoleSteps(t *testing.T) {
	t.Parallel()
	d := runShop(t)
	ann := signedIn(t, d, "ann", "user")
	code := "console.log('first')\nawait stock.shop.find({ id: 1, note: `" + hostile + "` })\nconsole.log('second')\n" +
		"try { await stock.shop.find({ id: 2 }) } catch {}\nconsole.log('third')\nreturn 'the value'"
	_, at, text := ann.do(t, "POST", "/playground", url.Values{"code": {code}}, nil)
	if !strings.Contains(text, "Step 5 of 5: <strong>the end</strong>") || !strings.Contains(text, "the value") {
		t.Fatalf("the page of the execution at its end: %s", text)
	}
	// what each step must and must not contain
	steps := [][2][]string{
		{{"the program starts", "had made no calls"}, {"the value", ">first", "call-1"}},
		{{"is made after", ">first", `class="state pending"`, "&amp;unanswered", `, at <a href="#line-2">line 2</a>`},
			{"call-2", "perhaps"}},
		{{"call 1, ", "is answered after", ">first"}, {"state pending", ">second", "call-2"}},
		{{"call 2, ", "is made after", ">second", `class="state pending"`}, {">third", "state failed"}},
		{{"is answered after", "state failed", `class="now"`}, {">third", "state pending"}},
		{{"the end", ">third", "the value"}, {"state pending"}},
	}
	path := at + "?step=0"
	for i, want := range steps {
		text := html.UnescapeString(strings.ReplaceAll(checkPage(t, ann, path), "&amp;unanswered", "\x00"))
		_, text, _ = strings.Cut(text, `id="steps"`)
		program := text[strings.Index(text, `id="program"`):strings.Index(text, `id="calls"`)]
		text = strings.ReplaceAll(strings.Replace(text, program, "", 1), "\x00", "&amp;unanswered")
		for _, part := range want[0] {
			if !strings.Contains(text+program, part) {
				t.Errorf("step %d does not contain %q: %s", i, part, text)
			}
		}
		for _, part := range want[1] {
			if strings.Contains(text, part) {
				t.Errorf("step %d contains %q: %s", i, part, text)
			}
		}
		if m := stepLink.FindStringSubmatch(text); m != nil {
			path, _, _ = strings.Cut(m[1], "#")
		} else if i != len(steps)-1 {
			t.Fatalf("step %d has no link to the next one: %s", i, text)
		}
	}
	if text := checkPage(t, ann, at+"/calls/1?part=call&unanswered"); !strings.Contains(text, "Not yet") {
		t.Errorf("an unanswered call has an answer: %s", text)
	}
	for path, want := range map[string]int{"?step=99": http.StatusOK, "?step=-1": http.StatusBadRequest,
		"?step=" + url.QueryEscape(hostile): http.StatusBadRequest} {
		if status, _, text := ann.do(t, "GET", at+path, nil, nil); status != want {
			t.Errorf("%s has status %d, want %d: %s", path, status, want, text)
		}
	}
	id := strings.TrimPrefix(at, "/executions/")
	x, err := d.Client().Journal(t.Context(), id)
	if err == nil && x.State != api.StateDone {
		t.Errorf("the execution is %+v, want it done and unchanged by the steps", x)
	}
}
