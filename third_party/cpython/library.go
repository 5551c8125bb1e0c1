// Package cpython holds CPython's standard library; package py beside it is the interpreter.
package cpython

import _ "embed"

// Library is a zip archive of the standard library's compiled modules, and of the time zone database as timezones.
//
//go:embed lib.zip
var Library []byte

// LibrarySum is the SHA-256 sum of Library, in hexadecimal digits.
const LibrarySum = "f7c02d925e71c84c06ff8f52f7c6270374317936cf8128a595504f005aaa46c4"
