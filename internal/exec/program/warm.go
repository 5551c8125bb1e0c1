package program

// Warm prepares what is otherwise done with the first program, mainly parsing the compiler's
// runtime library. Processes that will run programs call it while they wait for something else.
func Warm() {
	_, _ = New(Config{}).Prepare(Request{Source: "0"})
}
