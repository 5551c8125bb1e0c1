package cli

import (
	"context"
	"io"
)

// readInput returns a reader of standard input that fails when ctx is done. Standard input may be a
// terminal, or a pipe without a writer, where a read could block forever. Such a read ends with the
// process.
func (a *app) readInput(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(w, a.In)
		w.CloseWithError(err)
	}()
	return r
}
