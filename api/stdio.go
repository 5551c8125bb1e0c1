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

// StdioEnd is the method of the notification that ends such a connection when the process behind it
// stops. Its parameters are a StdioEndParams. Requests that it doesn't list and that were not
// answered had no effect, and can be sent to the next process.
const StdioEnd = "notifications/biplane/end"

// StdioEndParams are the parameters of StdioEnd.
type StdioEndParams struct {
	Accepted []string `json:"accepted"` // ids of requests that were accepted but not answered, as they were sent
}
