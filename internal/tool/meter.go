package tool

import "context"

// A Meter counts the bytes of a connection. It is safe for concurrent use.
type Meter interface {
	// CountBytes counts bytes that have passed. An error means that no more may pass: it says which
	// limit is used up.
	CountBytes(sent, received int64) error
	// EndCount is called once, at the end of the connection.
	EndCount()
}

type meterKey struct{}

// WithMeter returns a context for a call whose connection is counted. m may be nil.
func WithMeter(ctx context.Context, m Meter) context.Context {
	if m == nil {
		return ctx
	}
	return context.WithValue(ctx, meterKey{}, m)
}

// MeterFrom returns the Meter of a call. Without one, it returns one that counts nothing, and
// false.
func MeterFrom(ctx context.Context) (m Meter, counts bool) {
	if m, ok := ctx.Value(meterKey{}).(Meter); ok {
		return m, true
	}
	return noMeter{}, false
}

// A noMeter counts nothing.
type noMeter struct{}

func (noMeter) CountBytes(int64, int64) error { return nil }
func (noMeter) EndCount()                     {}
