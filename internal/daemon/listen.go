package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// A server serves one listener.
type server struct {
	http *http.Server
	done chan struct{} // closed when it serves no more
	err  error         // why, when it wasn't told to stop; set before done is closed
}

// serve begins to serve. failed is told when the server ends by itself; it must have room for that.
func serve(l net.Listener, h http.Handler, log *slog.Logger, failed chan<- error) *server {
	s := &server{
		http: &http.Server{
			Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
			failed <- err
		}
	}()
	return s
}

// stop ends a server: it takes no more connections, and the requests under way may end until ctx is done.
func (s *server) stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	return errors.Join(err, s.err)
}
