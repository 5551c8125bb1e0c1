package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Git is a Sink that commits each checkpoint to a branch of a git repository, as the file
// ORIGIN/SIZE, and pushes it. It never forces a push, so it can't remove commits from the branch.
// It refuses to continue a branch that lost checkpoints. It needs the git program, and uses git's
// own credentials. It never prompts for a password.
type Git struct {
	Repository string // a folder, or an address that git accepts
	Branch     string // DefaultBranch if empty
	Work       string // folder for temporary objects; created if missing
}

// DefaultBranch is the default branch for checkpoints.
const DefaultBranch = "biplane-checkpoints"

// Name returns the kind of the sink and the repository, without credentials.
func (g *Git) Name() string {
	name := g.Repository
	if scheme, rest, ok := strings.Cut(name, "://"); ok {
		if at := strings.LastIndexByte(strings.SplitN(rest, "/", 2)[0], '@'); at >= 0 {
			rest = rest[at+1:]
		}
		name = scheme + "://" + rest
	}
	return "git " + name
}

func (g *Git) branchName() string {
	if g.Branch == "" {
		return DefaultBranch
	}
	return g.Branch
}

// Put commits and pushes c, unless the branch already has it.
func (g *Git) Put(ctx context.Context, c Checkpoint) error {
	if _, err := exec.LookPath("git"); err != nil {
		return tool.Errorf(tool.Unavailable, "%s: git is not in PATH: install it", g.Name())
	}
	if strings.HasPrefix(g.Repository, "-") || strings.HasPrefix(g.branchName(), "-") {
		return tool.Errorf(tool.Invalid, "%s: a repository or branch must not begin with -", g.Name())
	}
	if _, err := os.Stat(filepath.Join(g.Work, "HEAD")); err != nil {
		if err := os.MkdirAll(g.Work, 0o700); err != nil {
			return tool.Errorf(tool.Unavailable, "%s: %w", g.Name(), err)
		}
		if _, err := g.runGit(ctx, "", "init", "--quiet", "--bare", "."); err != nil {
			return err
		}
	}
	parent, err := g.fetchTip(ctx)
	if err != nil {
		return err
	}
	if err := g.checkBranch(ctx, parent); err != nil {
		return err
	}
	commit, err := g.createCommit(ctx, parent, c)
	if err != nil {
		return err
	}
	if commit != "" {
		if _, err = g.runGit(ctx, "", "push", "--quiet", g.Repository,
			commit+":refs/heads/"+g.branchName()); err != nil {
			return err
		}
		parent = commit
	}
	_, err = g.runGit(ctx, "", "update-ref", g.sentRef(), parent)
	return err
}

// sentRef names the commit, in Work, with the checkpoints that the branch is known to have.
func (g *Git) sentRef() string {
	return fmt.Sprintf("refs/sent/%x/%s", sha256.Sum256([]byte(g.Repository)), g.branchName())
}

// checkBranch returns an error if the branch lost checkpoints that it had, or has other ones in
// their place. tip is its newest commit, "" if there is no branch.
func (g *Git) checkBranch(ctx context.Context, tip string) error {
	sent, err := g.runGit(ctx, "", "for-each-ref", "--format=%(objectname)", g.sentRef())
	if err != nil || sent == "" || sent == tip {
		return err
	}
	if tip == "" {
		return tool.Errorf(tool.Conflict,
			"%s: the branch %s, which had checkpoints, was removed: restore it, or configure another one",
			g.Name(), g.branchName())
	}
	changed, err := g.runGit(ctx, "", "diff-tree", "-r", "--name-only", "--no-renames", "--diff-filter=DMT", sent, tip)
	if err != nil || changed == "" {
		return err
	}
	first, _, _ := strings.Cut(changed, "\n")
	return tool.Errorf(tool.Conflict,
		"%s: the branch %s was rewritten: it lacks %s as it was sent. Restore the branch, or configure another one",
		g.Name(), g.branchName(), first)
}

// fetchTip fetches the newest commit of the branch, and returns its id, or "" if there is no branch
// yet.
func (g *Git) fetchTip(ctx context.Context) (string, error) {
	heads, err := g.runGit(ctx, "", "ls-remote", "--heads", g.Repository, "refs/heads/"+g.branchName())
	if err != nil {
		return "", err
	}
	commit, _, _ := strings.Cut(heads, "\t")
	if commit == "" {
		return "", nil
	}
	_, err = g.runGit(ctx, "", "fetch", "--quiet", "--depth=1", "--no-tags", g.Repository, "refs/heads/"+g.branchName())
	return commit, err
}

// createCommit creates a commit that adds c to parent, and returns its id, or "" if parent has c.
func (g *Git) createCommit(ctx context.Context, parent string, c Checkpoint) (string, error) {
	blob, err := g.runGit(ctx, c.Text, "hash-object", "-w", "--stdin")
	if err != nil {
		return "", err
	}
	args := []string{"read-tree", "--empty"}
	if parent != "" {
		args = []string{"read-tree", parent}
	}
	if _, err := g.runGit(ctx, "", args...); err != nil {
		return "", err
	}
	if _, err := g.runGit(ctx, "", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+FileName(c)); err != nil {
		return "", err
	}
	tree, err := g.runGit(ctx, "", "write-tree")
	if err != nil {
		return "", err
	}
	args = []string{"commit-tree", tree, "-m", fmt.Sprintf("checkpoint of %s at %d", c.Origin, c.Size)}
	if parent != "" {
		was, err := g.runGit(ctx, "", "rev-parse", parent+"^{tree}")
		if err != nil || was == tree {
			return "", err
		}
		args = append(args, "-p", parent)
	}
	return g.runGit(ctx, "", args...)
}

// runGit runs git in the folder Work, and returns its output.
func (g *Git) runGit(ctx context.Context, in string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git",
		append([]string{"-c", "core.hooksPath=" + os.DevNull, "-c", "gc.auto=0"}, args...)...)
	cmd.Dir = g.Work
	cmd.Stdin = strings.NewReader(in)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = 5 * time.Second
	var env []string
	// Drop variables that describe a repository in which biplane itself may be running.
	for _, v := range cmd.Environ() {
		if k, _, _ := strings.Cut(v, "="); !strings.HasPrefix(k, "GIT_") || strings.HasPrefix(k, "GIT_SSH") ||
			strings.HasPrefix(k, "GIT_CONFIG") || k == "GIT_ASKPASS" {
			env = append(env, v)
		}
	}
	cmd.Env = append(env, "GIT_TERMINAL_PROMPT=0", "GIT_DIR=.", "GIT_INDEX_FILE=index",
		"GIT_AUTHOR_NAME=biplane", "GIT_AUTHOR_EMAIL=biplane@localhost", "GIT_COMMITTER_NAME=biplane",
		"GIT_COMMITTER_EMAIL=biplane@localhost", "LC_ALL=C")
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", tool.Errorf(tool.Timeout, "%s: git %s took too long", g.Name(), args[0])
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return "", tool.Errorf(tool.Unavailable, "%s: git %s: %w", g.Name(), args[0], err)
		}
		why := strings.TrimSpace(strings.ReplaceAll(said.String(), g.Repository, strings.TrimPrefix(g.Name(), "git ")))
		return "", tool.Errorf(tool.Unavailable, "%s: git %s: %.400s", g.Name(), args[0],
			strings.ReplaceAll(why, "\n", "; "))
	}
	return strings.TrimSpace(out.String()), nil
}
