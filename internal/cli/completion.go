package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
)

// A completer completes arguments of commands for a shell. It prints no errors, and doesn't wait
// for long. What it completes is in the files of the commands.
type completer struct{ *app }

// forCompletion is like withClient. It uses only an existing data folder, for at most three
// seconds.
func (a completer) forCompletion(ctx context.Context, f func(context.Context, *api.Client) error) {
	if dir, err := config.DataFolder(a.dataDir); err != nil {
		return
	} else if _, err := os.Stat(dir); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	quiet := *a.app
	quiet.Err = io.Discard
	_ = quiet.withClient(ctx, f) // a shell shows no errors
}
