package main

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/biplane-dev/biplane/api"
)

// browserPath returns the browser to test with: the one in BIPLANE_TEST_BROWSER, or Chromium if it
// is installed.
func browserPath(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("BIPLANE_TEST_BROWSER"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no browser: install Chromium (Debian: apt-get install chromium), or set BIPLANE_TEST_BROWSER to one")
	return ""
}

// A chrome is a real browser.
type chrome struct {
	ctx  context.Context
	base string

	mu       sync.Mutex
	problems []string // what scripts and the policy for content reported
}

// newChrome starts a browser, which ends with the test.
func newChrome(t *testing.T, base string) *chrome {
	t.Helper()
	// The allocator makes the browser's folder, and removes it when the browser has ended.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browserPath(t)), chromedp.NoSandbox)
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	c := &chrome{base: base}
	c.ctx, stop = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // unknown events
	t.Cleanup(stop)
	c.openTab(t, c.ctx)
	return c
}

// openTab opens the tab of a context. The context must have no deadline: the tab would end with it.
func (c *chrome) openTab(t *testing.T, tab context.Context) {
	t.Helper()
	c.listen(tab)
	if err := chromedp.Run(tab); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
}

// listen collects the problems of a tab.
func (c *chrome) listen(tab context.Context) {
	chromedp.ListenTarget(tab, func(ev any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			c.problems = append(c.problems, ev.ExceptionDetails.Error())
		case *cdplog.EventEntryAdded:
			if ev.Entry.Level == cdplog.LevelError || ev.Entry.Level == cdplog.LevelWarning {
				c.problems = append(c.problems, ev.Entry.Text+" "+ev.Entry.URL)
			}
		}
	})
}

// stepTime bounds the actions of one call of do. They take a second or two: it only says which ones
// wait in vain.
const stepTime = 2 * time.Minute

// do runs actions in a tab.
func (c *chrome) do(t *testing.T, tab context.Context, actions ...chromedp.Action) {
	t.Helper()
	ctx, stop := context.WithTimeout(tab, stepTime)
	defer stop()
	if err := chromedp.Run(ctx, actions...); err != nil {
		ctx, stop := context.WithTimeout(tab, 10*time.Second)
		defer stop()
		var at, text string
		if rerr := chromedp.Run(ctx, chromedp.Location(&at), chromedp.Text("body", &text)); rerr != nil {
			text = "the page can't be read: " + rerr.Error()
		}
		t.Fatalf("the browser failed: %v, at %s\n%s", err, at, text)
	}
}

// see waits until an element is visible.
func see(selector string) chromedp.Action { return chromedp.WaitVisible(selector, chromedp.ByQuery) }

// miss waits until no element matches.
func miss(selector string) chromedp.Action {
	return chromedp.WaitNotPresent(selector, chromedp.ByQuery)
}

// loaded waits until the page's script listens for keys.
func loaded() chromedp.Action { return chromedp.Poll(`document.readyState === "complete"`, nil) }

// click clicks on an element when it is visible.
func click(selector string) chromedp.Action { return chromedp.Click(selector, chromedp.ByQuery) }

// read reads the text of an element when it is visible.
func read(selector string, to *string) chromedp.Action {
	return chromedp.Text(selector, to, chromedp.ByQuery)
}

func (c *chrome) signIn(t *testing.T, key string) {
	t.Helper()
	c.do(t, c.ctx, chromedp.Navigate(c.base+"/"), chromedp.SendKeys("input[name=key]", key),
		chromedp.Submit("form.sign-in"), see("header .who"))
}

var idPattern = regexp.MustCompile(`(apr|ex|sb)_[a-z0-9]+`)

// capture opens a page, and captures it under a name that is made of its path, without its ID.
func (c *chrome) capture(t *testing.T, path string) {
	t.Helper()
	c.do(t, c.ctx, chromedp.Navigate(c.base+path), see("main h1"))
	name := regexp.MustCompile(`[^a-z0-9.=-]+`).ReplaceAllString(idPattern.ReplaceAllString(path, "one"), "_")
	c.captureHere(t, cmp.Or(strings.Trim(name, "_"), "overview"))
}

// captureHere saves a picture of the current page in each size and theme, and fails if it is wider
// than the window, not accessible, or in the wrong theme.
func (c *chrome) captureHere(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("BIPLANE_TEST_SCREENSHOTS")
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1440} {
			var over int
			var back string
			c.do(t, c.ctx, chromedp.EmulateViewport(width, 900),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
					{Name: "prefers-color-scheme", Value: theme}}),
				chromedp.Evaluate("document.documentElement.scrollWidth - innerWidth", &over),
				chromedp.Evaluate("getComputedStyle(document.body).backgroundColor", &back))
			c.checkAccess(t, name)
			if over > 0 {
				t.Errorf("%s is %d pixels wider than a window of %d", name, over, width)
			}
			if (back == "rgb(20, 23, 27)") != (theme == "dark") {
				t.Errorf("the background of %s is %s in the %s theme", name, back, theme)
			}
			if folder == "" {
				continue
			}
			var picture []byte
			c.do(t, c.ctx, chromedp.FullScreenshot(&picture, 100))
			file := filepath.Join(folder, name+"-"+strconv.FormatInt(width, 10)+"-"+theme+".png")
			if err := os.WriteFile(file, picture, 0o600); err != nil {
				t.Errorf("save the picture: %v", err)
			}
		}
	}
}

// A violation is what axe found on a page.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// checkAccess fails if axe, a checker of accessibility, finds something serious on the page. The
// file of axe is in BIPLANE_TEST_AXE; without it, nothing is checked.
func (c *chrome) checkAccess(t *testing.T, path string) {
	t.Helper()
	file := os.Getenv("BIPLANE_TEST_AXE")
	if file == "" {
		return
	}
	axe, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	var found []violation
	await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	c.do(t, c.ctx, chromedp.Evaluate(string(axe)+";0", nil),
		chromedp.Evaluate(`axe.run().then(r => r.violations)`, &found, await))
	for _, v := range found {
		if v.Impact == "serious" || v.Impact == "critical" {
			t.Errorf("%s is not accessible: %s: %s: %v", path, v.ID, v.Help, v.Nodes)
		}
	}
}

// stepJournal steps through an execution by the keyboard: its call is made, is answered, and the
// end.
func (c *chrome) stepJournal(t *testing.T, id string) {
	t.Helper()
	var text, value string
	showSteps := chromedp.Text("#steps", &text)
	c.do(t, c.ctx, chromedp.Navigate(c.base+"/executions/"+id), chromedp.WaitVisible("#steps"), chromedp.KeyEvent("["),
		chromedp.WaitVisible(`tr.now .done, tr.now[id^=call]`), showSteps)
	if !strings.Contains(text, "is answered") {
		t.Errorf("a step back from the end is %q", text)
	}
	c.do(t, c.ctx, loaded(), chromedp.KeyEvent("["), chromedp.WaitVisible(`.calls .state.pending`), showSteps,
		chromedp.Text("pre.console", &value))
	if !strings.Contains(text, "is made") || !strings.Contains(value, "begins") {
		t.Errorf("two steps back are %q, with the console %q", text, value)
	}
	c.do(t, c.ctx, loaded(), chromedp.KeyEvent("]"), chromedp.WaitNotPresent(`.calls .state.pending`), see("#steps"),
		loaded(), chromedp.KeyEvent("]"), chromedp.WaitVisible("#value"))
}

// checkProblems fails the test if scripts or the policy for content reported something.
func (c *chrome) checkProblems(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) > 0 {
		t.Errorf("the browser reports %s", strings.Join(c.problems, "\n"))
	}
}

// hostile is a text from outside that tries to leave its element, with hidden characters.
const hostile = `"><script>alert(1)</script><a href='javascript:x'>` + "\u202e\u200b"

// TestBrowser uses the console of biplane serve in a real browser. It watches a program, decides on
// its call and on an agent's calls, steps through a journal, is notified, tries a tool, accepts a
// definition, runs a program with changes, and uses the keyboard.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	browserPath(t)
	t.Parallel()
	p := newShop(t)
	s := serveProcess(t, t.TempDir(), "policy: ask-for-writes\nauth: { keys: true }\ndefinitions: {}\n"+
		"mcpServers: { shop: { url: '"+p.url+"' } }\n", "127.0.0.1:0")
	if ups, err := s.client.Upstreams(t.Context()); err != nil || len(ups) != 1 || ups[0].Tools != 3 {
		t.Fatalf("the upstreams are %+v, %v; want one with 3 tools", ups, err)
	}
	agent, admin := s.createKey(t, "agent"), s.createKey(t, "boss", "admin", "user")
	c := newChrome(t, s.base)
	c.signIn(t, admin)
	c.watchAndDecide(t, s, agent)
	c.decideForAgent(t, s, agent, p)
	c.denyNotified(t, s, agent, p)
	c.tryTool(t)
	c.acceptDefinition(t, s, p)
	c.runWithChanges(t, s, admin)
	c.checkProblems(t)
}

// watchAndDecide watches a program, decides on its call, uses the keyboard, steps through the
// journal, and captures all pages.
func (c *chrome) watchAndDecide(t *testing.T, s *served, agent string) {
	t.Helper()
	x, err := s.withKey(agent).Run(t.Context(), api.RunRequest{NoWait: true,
		Code: "console.log('begins');\nconst r = await callTool('shop.put', { n: 1, note: `" + hostile +
			"` });\nreturn 6 * 7"})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	id := s.pending(t, 1)[0].ID

	// One tab watches the execution while another decides.
	c.do(t, c.ctx, chromedp.Navigate(c.base+"/executions/"+x.ID), chromedp.WaitVisible("#live .state.waiting"),
		chromedp.WaitVisible(`.badge.pending`))
	tab, closeTab := chromedp.NewContext(c.ctx)
	c.openTab(t, tab)
	c.do(t, tab, chromedp.Navigate(c.base+"/approvals/"+id), chromedp.SendKeys("input[name=note]", "fine"),
		chromedp.Click("button.approve"), chromedp.WaitNotPresent("button.approve"))
	closeTab()
	var value string
	c.do(t, c.ctx, chromedp.WaitVisible("#live .state.done"), chromedp.Text(".tree", &value, chromedp.ByQuery))
	if value != "42" {
		t.Errorf("the value on the page is %q, want 42", value)
	}

	// A call is opened, with the keyboard.
	var parts, rows, focused string
	c.do(t, c.ctx, chromedp.KeyEvent("j"), chromedp.KeyEvent("\r"), chromedp.WaitVisible("details.call .tree"),
		chromedp.Text("details.call .part", &parts, chromedp.ByQuery))
	if !strings.Contains(parts, "alert(1)") || !strings.Contains(parts, `\u202e`) {
		t.Errorf("the opened call is %q, want its arguments with visible characters", parts)
	}
	c.do(t, c.ctx, chromedp.Navigate(c.base+"/executions"), chromedp.WaitVisible("[data-row]"), chromedp.KeyEvent("j"),
		chromedp.AttributeValue("[data-row].current a", "href", &rows, nil), chromedp.KeyEvent("/"),
		chromedp.Evaluate("document.activeElement.name", &focused))
	if rows != "/executions/"+x.ID || focused != "session" {
		t.Errorf("j selects %q and / focuses %q", rows, focused)
	}
	c.do(t, c.ctx, chromedp.Navigate(c.base+"/"), chromedp.WaitVisible("main h1"), chromedp.KeyEvent("?"),
		chromedp.WaitVisible("#help[open]"))

	c.stepJournal(t, x.ID)

	// A program from the playground, and the switch of the theme.
	var theme string
	c.do(t, c.ctx, chromedp.Navigate(c.base+"/playground"), chromedp.SendKeys("#code", "return shop"),
		chromedp.WaitVisible("#completions button"), chromedp.SetValue("#code", "return 5 * 5"),
		chromedp.Click("button.go"), chromedp.WaitVisible("#live .state.done"), chromedp.Click("#theme"),
		chromedp.Reload(), chromedp.WaitVisible("main h1"),
		chromedp.AttributeValue("html", "data-theme", &theme, nil))
	if theme == "" {
		t.Error("the chosen theme is lost when the page is loaded again")
	}
	c.do(t, c.ctx, chromedp.Evaluate("document.cookie = 'theme=; max-age=0; path=/'", nil))
	for _, path := range []string{"/", "/executions", "/executions/" + x.ID, "/approvals", "/approvals/" + id, "/tools",
		"/tools/shop.put", "/playground", "/sessions", "/policy?tool=shop.put", "/policy/edit", "/audit",
		"/audit/proof", "/usage", "/keys", "/executions/" + x.ID + "?step=1"} {
		c.capture(t, path)
	}
}
