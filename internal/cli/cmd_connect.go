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

// connection is the output of `connect -o json`.
type connection struct {
	Upstream string   `json:"upstream"`
	State    string   `json:"state"`
	Reason   string   `json:"reason,omitempty"`
	SignIn   string   `json:"sign_in"` // how it gets its credentials
	Tools    []string `json:"tools"`   // paths
}

// signInFlags holds the flags of connect.
type signInFlags struct {
	owner     string // see api.SignInTarget; empty: the caller
	server    string // address of a Biplane on the network; empty: the data folder's
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

The sign-in is shared by all principals. With credentials: person in the configuration, it is yours
alone. With --server, you sign in as the principal of the API key or access token in $BIPLANE_API_KEY.

On a machine without a browser, open the address on another one. If the browser is then redirected to an
address that it can't open, paste that address here and press Enter.`,
		Example: `  biplane connect linear
  biplane connect linear --no-browser
  biplane connect linear --forget      sign out
  biplane connect linear --for key:ci
  BIPLANE_API_KEY=bp_… biplane connect linear --server https://biplane.example.com`,
		Args: exactlyOne("UPSTREAM", "the name of an upstream"),
		RunE: func(cmd *cobra.Command, args []string) error {
			do := func(ctx context.Context, client *api.Client) error {
				c := &connector{app: a, client: client, flags: f, redirects: make(chan string, 1),
					target: api.SignInTarget{Upstream: args[0], Owner: f.owner, Own: f.server != ""}}
				if f.forget {
					return c.signOut(ctx)
				}
				return c.signIn(ctx)
			}
			if f.server == "" {
				return a.withClient(cmd.Context(), do)
			}
			client, err := serverClient(f.server, os.Getenv(credentialVariable))
			if err == nil && f.owner != "" {
				err = usageError("--for is for Biplane's own machine: with --server, you sign in for yourself")
			}
			if err != nil {
				return err
			}
			return do(cmd.Context(), client)
		},
	}
	c.Flags().StringVar(&f.owner, "for", "",
		"sign in for this `principal`, if each has their own: me, key:NAME or ISSUER#SUBJECT")
	c.Flags().StringVar(&f.server, "server", "",
		"the `address` of a Biplane on the network; the credential is in $BIPLANE_API_KEY")
	c.Flags().BoolVar(&f.forget, "forget", false,
		"sign out: delete the tokens, and revoke them if the server supports it")
	c.Flags().BoolVar(&f.noBrowser, "no-browser", false, "print the address instead of opening a browser")
	c.Flags().BoolVar(&f.paste, "paste", false,
		"the browser runs elsewhere: read the address that it is redirected to from standard input")
	addOutput(c, &f.output)
	return c
}

// A connector signs in to one upstream, or out.
type connector struct {
	*app
	client    *api.Client
	target    api.SignInTarget
	flags     signInFlags
	redirects chan string // addresses at which the browser arrived on this machine
}

func (a *connector) signOut(ctx context.Context) error {
	out, err := a.client.SignIns().SignOut(ctx, a.target)
	if err != nil {
		return err
	}
	return a.printOutput(a.flags.output, out, func(w io.Writer) {
		fmt.Fprintf(w, "Signed out of %s: the tokens are deleted here", cleanLine(out.Upstream))
		if out.Revoked {
			fmt.Fprint(w, ", and revoked there")
		}
		fmt.Fprintln(w, ".")
	})
}

// signIn signs in if necessary, and prints the state of the upstream.
func (a *connector) signIn(ctx context.Context) error {
	var own *redirectListener
	if a.target.Own {
		own = listenRedirect(ctx, 0, a.redirects)
		defer func() { own.stopListening() }()
	}
	in, err := a.client.SignIns().Begin(ctx, a.target, own.portNumber())
	if err != nil {
		return err
	}
	if in.State == api.SignInWaiting {
		if port := redirectPort(in.Redirect); own != nil && port != own.portNumber() { // set in the configuration
			own.stopListening()
			own = listenRedirect(ctx, port, a.redirects)
		}
		if in, err = a.waitForPerson(ctx, in); err != nil {
			return err
		}
	}
	if in.Error != nil {
		return in.Error
	}
	return a.printConnection(ctx, a.client, in, a.flags.output)
}

// waitForPerson shows the address and waits for the end of the attempt. It cancels the attempt if
// ctx is done first.
func (a *connector) waitForPerson(ctx context.Context, in *api.SignIn) (*api.SignIn, error) {
	f := a.flags
	defer func() {
		if ctx.Err() != nil {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			_ = a.client.SignIns().Cancel(end, a.target, in.ID) // the process may be gone
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
	go func() { done <- a.awaitSignIn(asking, in) }()
	for {
		select {
		case o := <-done:
			return o.in, o.err
		case text, ok := <-pasted:
			if !ok && f.paste {
				stop()
				<-done
				_ = a.client.SignIns().Cancel(ctx, a.target, in.ID) // an error only means that the attempt is over
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
			if a.pasteAddress(ctx, in, text) {
				pasted = nil // done will have the result
			}
		case text := <-a.redirects:
			a.pasteAddress(ctx, in, text)
		}
	}
}

// pasteAddress passes on the address at which the browser ended. It reports whether that was
// accepted.
func (a *connector) pasteAddress(ctx context.Context, in *api.SignIn, text string) bool {
	_, err := a.client.SignIns().Paste(ctx, a.target, in.ID, text)
	if err != nil && ctx.Err() == nil {
		// if that ended the attempt, awaitSignIn has the result
		fmt.Fprintln(a.Err, "biplane: "+cleanLine(toAPIError(err).Message))
	}
	return err == nil
}

// A signInResult is the result of a sign-in attempt.
type signInResult struct {
	in  *api.SignIn
	err error
}

// awaitSignIn polls until the attempt is over.
func (a *connector) awaitSignIn(ctx context.Context, in *api.SignIn) signInResult {
	for {
		now, err := a.client.SignIns().Get(ctx, a.target, in.ID)
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

// openBrowser opens a URL in the browser of $BROWSER, otherwise in the desktop's. It doesn't
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
