package store

import (
	"database/sql"
	"reflect"
	"runtime"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// stepsBetween is the number of pages, or of instructions of SQLite, between two pauses.
const stepsBetween = 100

// withPauses calls f, whose statements on c call pause repeatedly. pause may block. The driver
// has no method for SQLite's progress handler, so it is set on the driver's handle of the
// connection. If a later driver has no such handle, statements run without pauses, and a test
// fails. A connection on which the handler can't be removed was closed by package sql.
func withPauses(c *sql.Conn, pause func(), f func() error) error {
	var pin runtime.Pinner // SQLite keeps the address of pause as a number
	defer pin.Unpin()
	pin.Pin(&pause)
	err := c.Raw(func(driver any) error {
		setProgress(driver, callPause, uintptr(unsafe.Pointer(&pause)))
		return nil
	})
	if err != nil {
		return err
	}
	defer c.Raw(func(driver any) error {
		setProgress(driver, nil, 0)
		return nil
	})
	return f()
}

// A progressHandler is a function that SQLite calls. It returns a number other than 0 to end the
// statement.
type progressHandler func(tls *libc.TLS, arg uintptr) int32

func callPause(_ *libc.TLS, arg uintptr) int32 {
	(**(**func())(unsafe.Pointer(&arg)))()
	return 0
}

// setProgress sets the progress handler of a connection. h must be a function without a closure,
// because SQLite, translated to Go, keeps its address as a number.
func setProgress(driver any, h progressHandler, arg uintptr) {
	db := reflect.Indirect(reflect.ValueOf(driver)).FieldByName("db")
	if !db.IsValid() || db.Kind() != reflect.Uintptr || db.Uint() == 0 {
		return
	}
	tls := libc.NewTLS()
	defer tls.Close()
	address := *(*uintptr)(unsafe.Pointer(&h))
	sqlite3.Xsqlite3_progress_handler(tls, uintptr(db.Uint()), stepsBetween, address, arg)
}
