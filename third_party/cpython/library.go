// Package cpython holds CPython's standard library; package py beside it is the interpreter.
package cpython

import _ "embed"

// Library is a zip archive of the standard library's compiled modules, and of the time zone database as timezones.
//
//go:embed lib.zip
var Library []byte
