package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A dated writer records the deadlines of its writes.
type dated struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (d *dated) SetWriteDeadline(t time.Time) error {
	d.deadlines = append(d.deadlines, t)
	return nil
}

// TestSlowReadersHaveADeadline checks that each write to a client has its own deadline.
func TestSlowReadersHaveADeadline(t *testing.T) {
	d := &dated{ResponseRecorder: httptest.NewRecorder()}
	p := timedWriter{d}
	before := time.Now()
	p.WriteHeader(http.StatusOK)
	for range 2 {
		if _, err := p.Write([]byte("x")); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	if err := http.NewResponseController(p).Flush(); err != nil {
		t.Fatalf("Flush: %v", err)
	}
	if len(d.deadlines) != 4 {
		t.Fatalf("%d deadlines for a header, two writes and a flush", len(d.deadlines))
	}
	for _, at := range d.deadlines {
		if at.Before(before.Add(writeTime)) || at.After(time.Now().Add(writeTime)) {
			t.Errorf("the deadline is %v after the write", at.Sub(before))
		}
	}
}
