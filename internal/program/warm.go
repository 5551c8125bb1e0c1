package program

// Warm makes ready what is otherwise made with the first program, the compiler's runtime library before all: parsed. A process that is about to run
// programs does so while it waits for something else.
func Warm() {
	_, _ = New(Config{}).Prepare(Request{Source: "0"})
}
