package api

// StdioProtocol is the protocol in the Upgrade header that turns a connection into the stdio of an
// MCP server: lines of JSON-RPC in both directions.
const StdioProtocol = "biplane-mcp-stdio"

// ConnectionHeader names a connection that outlives the processes that serve it, so that the next
// process knows what the agent has read. The name must be impossible to guess, with at most 64
// characters.
const ConnectionHeader = "Biplane-Connection"

// ProfileHeader names the profile of a connection; empty: none.
const ProfileHeader = "Biplane-Profile"

// EndHeader says that the client of a connection understands StdioEnd, whatever its value.
const EndHeader = "Biplane-End"

// StdioEnd is the method of the last message to a client that sent EndHeader, when the process that
// serves the connection stops. Its parameters are a StdioEndParams. Without this message, every
// request without an answer may have taken effect.
const StdioEnd = "notifications/biplane/end"

// StdioEndParams say which requests were not accepted. They had no effect, and can be sent to the
// next process. Requests are named by their lines, counted from 1, since an id can be spelled in
// several ways.
type StdioEndParams struct {
	Read int   `json:"read"` // lines that were read: no later ones were accepted
	Left []int `json:"left"` // lines among them whose requests were not accepted, ascending
}
