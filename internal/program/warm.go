package program

import "github.com/evanw/esbuild/pkg/api"

// Warm makes ready what the compiler otherwise makes with the first program: its own runtime library, parsed. A process that is
// about to run programs does so while it waits for something else.
func Warm() { compile("0", mode{loader: api.LoaderTS}) }
