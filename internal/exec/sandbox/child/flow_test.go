package child

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
)

// A wire is a writer that delivers the frames written by one side to the other side's flow.
type wire struct{ other *flow }

func (w *wire) Write(p []byte) (int, error) {
	r := newReader(bytes.NewReader(p))
	for {
		f, err := r.next()
		switch {
		case err == io.EOF:
			return len(p), nil
		case err == nil && f.kind == kindData:
			err = w.other.addBytes(f.payload)
		case err == nil:
			err = w.other.grant(f.payload)
		}
		if err != nil {
			return 0, err
		}
	}
}

// flows returns the two ends of an operation.
func flows() (from, to *flow) {
	a, b := &wire{}, &wire{}
	from, to = newFlow(newWriter(a), 1, 1), newFlow(newWriter(b), 1, 1)
	a.other, b.other = to, from
	return from, to
}

// TestGather checks that gather returns the sent bytes, for any size and whenever it is called.
func TestGather(t *testing.T) {
	for _, size := range []int{0, 1, partSize, window/2 - 1, window/2 + 1, window - 1, window, window + 1,
		window + window/2 + 1, 2*window + window/4, 5*window + 17} {
		for _, late := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				all := bytes.Repeat([]byte("0123456789a"), size/11+1)[:size]
				from, to := flows()
				to.expect(uint64(size))
				sent := make(chan error, 1)
				go func() { sent <- from.send(all) }()
				if late {
					synctest.Wait() // until it has no credit left, or everything has arrived
				}
				got, err := to.gather(t.Context(), uint64(size))
				if err != nil || !bytes.Equal(got, all) {
					t.Errorf("%d bytes come as %d, %v", size, len(got), err)
				}
				if err := <-sent; err != nil {
					t.Errorf("err = %v, want nil", err)
				}
			})
		}
	}
}

// TestGatherStops cancels a gather whose data never arrives completely.
func TestGatherStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := flows()
		to.expect(100)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := to.gather(ctx, 100)
			ended <- err
		}()
		if err := from.send(make([]byte, 99)); err != nil {
			t.Fatalf("send: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it has all: %v", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want errors.Is(err, context.Canceled)", err)
		}
	})
}

// TestWriteNowLast checks that last bytes are sent with the next frame, as far as there is credit.
func TestWriteNowLast(t *testing.T) {
	from, to := flows()
	long := bytes.Repeat([]byte("x"), window+1)
	n, err := from.WriteNow(long, true)
	if n != window || err != nil {
		t.Errorf("WriteNow of %d bytes: %d, %v, want %d", len(long), n, err, window)
	}
	if b, _ := to.take(); len(b) != 0 {
		t.Errorf("%d bytes arrived before the next frame", len(b))
	}
	if err := from.w.push(); err != nil {
		t.Fatalf("push: %v", err)
	}
	if b, _ := to.take(); !bytes.Equal(b, long[:window]) {
		t.Errorf("%d bytes arrived, want %d", len(b), window)
	}
	from.finish()
	if _, err := from.WriteNow([]byte("x"), true); err != io.ErrClosedPipe {
		t.Errorf("WriteNow after the end: %v, want %v", err, io.ErrClosedPipe)
	}
}
