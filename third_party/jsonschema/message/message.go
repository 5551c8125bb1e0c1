// Package message stands in for golang.org/x/text/message, of which the validator next to it uses one function: its errors are
// in English only here, and numbers in them are written as JSON writes them.
package message

import "fmt"

// A Printer formats as fmt does. A nil Printer is as good as any.
type Printer struct{}

// Sprintf is fmt.Sprintf.
func (*Printer) Sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }
