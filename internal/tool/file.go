package tool

// A FileOp is an operation of a program on its files: ./tools (read-only), ./skills and
// ./workspace. Results and errors follow POSIX. There are no links, owners or permissions.
//
//	"read"     returns the text (invalid UTF-8 becomes U+FFFD) or, with Base64, the bytes;
//	           from Offset, at most Length if set
//	"write"    writes Data; Flag is as in fopen: "w" (the default), "wx", "a", "ax",
//	           "r+" (in place, at Offset; the file must exist)
//	"truncate" sets the length to Offset
//	"list"     returns the names in a directory, sorted, as an array of {"name", "dir"}; with Flag
//	           "l" also "size" and "mtime", as "stat"
//	"stat"     returns {"dir": bool, "size": n, "mtime": ms since the epoch, "readonly": bool}
//	"mkdir"    creates a directory; with Recursive also its missing parents, and an
//	           existing directory is no error
//	"rm"       removes a file; with Recursive also a directory and its contents;
//	           with Force a missing path is no error
//	"rmdir"    removes an empty directory
//	"rename"   moves Path to To
//	"copy"     copies the file Path to To; with Flag "wx" To must not exist
type FileOp struct {
	ID int64  `json:"id"`
	Op string `json:"op"`
	// as written by the program; relative to the root, which holds ./tools, ./skills and
	// ./workspace
	Path   string `json:"path"`
	To     string `json:"to,omitempty"`
	Data   string `json:"data,omitempty"`   // text, or base64 with Base64
	Base64 bool   `json:"base64,omitempty"` // Data, or the value, is base64
	// "write": a handle of an image, audio or resource returned by a tool, written instead of Data
	Handle    string `json:"handle,omitempty"`
	Offset    int64  `json:"offset,omitempty"`
	Length    *int64 `json:"length,omitempty"` // "read": at most this many bytes; absent: all
	Flag      string `json:"flag,omitempty"`
	Recursive bool   `json:"recursive,omitempty"`
	Force     bool   `json:"force,omitempty"`
}
