package cli

import (
	"context"
	"io"
)

// input reads standard input until ctx ends. What is read may be a terminal, or a pipe that nobody
// writes to: whoever gave up would wait for it. A read that is under way then ends with the
// process.
func (a *app) input(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(w, a.In)
		w.CloseWithError(err)
	}()
	return r
}
