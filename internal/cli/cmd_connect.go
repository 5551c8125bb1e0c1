package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

// connection is what `connect -o json` prints.
type connection struct {
	Upstream string   `json:"upstream"`
	State    string   `json:"state"`
	Reason   string   `json:"reason,omitempty"`
	SignIn   string   `json:"sign_in"` // how it gets its credentials
	Tools    []string `json:"tools"`   // paths
}

// signInFlags holds the flags of connect.
type signInFlags struct {
	forget    bool
	noBrowser bool
	paste     bool
	output    string
}

func connectCommand(a *app) *cobra.Command {
	var f signInFlags
	c := &cobra.Command{
		Use:   "connect UPSTREAM",
		Short: "Sign in to an upstream",
		Long: `Signs in to an upstream through a browser (OAuth 2.1), and lists its tools. The tokens are sealed in the
data folder and renewed automatically. The command reports an upstream that needs no sign-in, or that
has its credentials in the configuration.

On a machine without a browser, open the address on another one. If the browser is then redirected to an
address that it can't open, paste that address here and press Enter.`,
		Example: `  biplane connect linear
  biplane connect linear --no-browser
  biplane connect linear --forget      sign out`,
		Args: exactlyOne("UPSTREAM", "the name of an upstream"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				if f.forget {
					return a.signOut(ctx, client, args[0], f)
				}
				return a.signIn(ctx, client, args[0], f)
			})
		},
	}
	c.Flags().BoolVar(&f.forget, "forget", false,
		"sign out: delete the tokens, and revoke them if the server supports it")
	c.Flags().BoolVar(&f.noBrowser, "no-browser", false, "print the address instead of opening a browser")
	c.Flags().BoolVar(&f.paste, "paste", false,
		"the browser runs elsewhere: read the address that it is redirected to from standard input")
	addOutput(c, &f.output)
	return c
}

func (a *app) signOut(ctx context.Context, client *api.Client, name string, f signInFlags) error {
	out, err := client.SignOut(ctx, name)
	if err != nil {
		return err
	}
	return a.printOutput(f.output, out, func(w io.Writer) {
		fmt.Fprintf(w, "Signed out of %s: the tokens are deleted here", cleanLine(out.Upstream))
		if out.Revoked {
			fmt.Fprint(w, ", and revoked there")
		}
		fmt.Fprintln(w, ".")
	})
}

// signIn signs in if necessary, and prints the state of the upstream.
func (a *app) signIn(ctx context.Context, client *api.Client, name string, f signInFlags) error {
	in, err := client.BeginSignIn(ctx, name)
	if err != nil {
		return err
	}
	if in.State == api.SignInWaiting {
		if in, err = a.waitForPerson(ctx, client, in, f); err != nil {
			return err
		}
	}
	if in.Error != nil {
		return in.Error
	}
	return a.printConnection(ctx, client, in, f.output)
}

// waitForPerson shows the address and waits for the end of the attempt. It cancels the attempt if
// ctx is done first.
func (a *app) waitForPerson(ctx context.Context, client *api.Client, in *api.SignIn,
	f signInFlags) (*api.SignIn, error) {
	defer func() {
		if ctx.Err() != nil {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			_ = client.CancelSignIn(end, in.Upstream, in.ID) // the process may be gone
		}
	}()
	fmt.Fprintf(a.Err, "To sign in to %s, open this address in a browser:\n\n  %s\n\n", cleanLine(in.Upstream),
		cleanLine(in.URL))
	if !f.noBrowser && !f.paste {
		if err := openBrowser(ctx, in.URL); err == nil {
			fmt.Fprintln(a.Err, "A browser was asked to open it.")
		} else if !errors.Is(err, errNoBrowser) {
			fmt.Fprintf(a.Err, "No browser could be opened (%s).\n", err)
		}
	}
	fmt.Fprintf(a.Err, "Waiting for you to sign in (press Ctrl-C to cancel). Is the browser on another machine? Paste "+
		"the address that it is redirected to,\nwhich begins with %s, and press enter.\n", cleanLine(in.Redirect))
	pasted := lineReader(a.In)
	done := make(chan signInResult, 1)
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() { done <- awaitSignIn(asking, client, in) }()
	for {
		select {
		case o := <-done:
			return o.in, o.err
		case text, ok := <-pasted:
			if !ok && f.paste {
				stop()
				<-done
				_ = client.CancelSignIn(ctx, in.Upstream, in.ID) // an error only means that the attempt is over
				return nil, usageError(
					"no address was pasted: write the address that the browser was redirected to on standard input")
			}
			if !ok {
				pasted = nil
				continue
			}
			if text == "" {
				continue
			}
			if _, err := client.PasteSignIn(ctx, in.Upstream, in.ID, text); err == nil {
				pasted = nil // done will have the result
			} else if ctx.Err() == nil {
				// if that ended the attempt, done has the result
				fmt.Fprintln(a.Err, "biplane: "+cleanLine(toAPIError(err).Message))
			}
		}
	}
}

// A signInResult is the result of a sign-in attempt.
type signInResult struct {
	in  *api.SignIn
	err error
}

// awaitSignIn polls until the attempt is over.
func awaitSignIn(ctx context.Context, client *api.Client, in *api.SignIn) signInResult {
	for {
		now, err := client.SignIn(ctx, in.Upstream, in.ID)
		if err != nil || now.State != api.SignInWaiting {
			return signInResult{now, err}
		}
	}
}

// maxLine is the maximum size of a pasted line.
const maxLine = 64 << 10

// lineReader returns a channel with the trimmed lines of r, which is closed at its end. A read of a
// terminal can't be canceled: the goroutine ends with the process at the latest.
func lineReader(r io.Reader) <-chan string {
	out := make(chan string, 1)
	go func() {
		defer close(out)
		s := bufio.NewScanner(r)
		s.Buffer(nil, maxLine)
		for s.Scan() {
			out <- strings.TrimSpace(s.Text())
		}
	}()
	return out
}

var errNoBrowser = errors.New("there is none")

// openBrowser opens a URL in the browser of $BROWSER, otherwise in that of the desktop. It doesn't
// wait for the browser.
func openBrowser(ctx context.Context, url string) error {
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
		return errors.New("the address is not an http or https URL")
	}
	command, _, _ := strings.Cut(os.Getenv("BROWSER"), ":")
	// the address always comes last
	args := slices.DeleteFunc(strings.Fields(command), func(s string) bool { return s == "%s" })
	desktop := os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	switch {
	case len(args) > 0:
	case runtime.GOOS == "darwin":
		args = []string{"open"}
	case runtime.GOOS == "windows":
		args = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case desktop:
		args = []string{"xdg-open"}
	default:
		return errNoBrowser
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), args[0], append(args[1:], url)...)
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return errNoBrowser
		}
		return err
	}
	go func() { _ = cmd.Wait() }() // it may outlive this process; its exit status is irrelevant
	return nil
}

// printConnection prints the state of an upstream and its tools. It returns an error if the
// upstream is not connected.
func (a *app) printConnection(ctx context.Context, client *api.Client, in *api.SignIn, output string) error {
	ups, err := client.Upstreams(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(ups, func(u api.Upstream) bool { return u.Name == in.Upstream })
	if i < 0 {
		return &api.Error{Kind: api.NotFound, Message: fmt.Sprintf("upstream %s no longer exists", in.Upstream)}
	}
	u := ups[i]
	tools, err := client.Tools(ctx)
	if err != nil {
		return err
	}
	c := connection{Upstream: u.Name, State: u.State, Reason: u.Reason, SignIn: in.How, Tools: []string{}}
	for _, t := range tools {
		if t.Upstream == u.Name {
			c.Tools = append(c.Tools, t.Path)
		}
	}
	err = a.printOutput(output, c, func(w io.Writer) {
		writeColumns(w, []string{"upstream", u.Name}, []string{"state", u.State}, []string{"signs in", in.How},
			[]string{"tools", strconv.Itoa(len(c.Tools))})
		for _, t := range c.Tools {
			fmt.Fprintln(w, "  "+cleanLine(t))
		}
	})
	if err != nil {
		return err
	}
	switch u.State {
	case "ready", "degraded":
		return nil
	case "needs sign-in":
		return &api.Error{Kind: api.Unavailable, Message: fmt.Sprintf("%s needs sign-in: %s", u.Name, u.Reason)}
	}
	return &api.Error{Kind: api.Unavailable, Message: fmt.Sprintf("%s is %s: %s", u.Name, u.State, u.Reason)}
}
