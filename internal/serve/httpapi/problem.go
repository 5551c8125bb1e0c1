package httpapi

import (
	"net/http"
	"strconv"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// problemType is the Content-Type of errors (RFC 9457).
const problemType = "application/problem+json"

// titles has the title of each kind of error.
var titles = map[tool.Kind]string{
	tool.Invalid:     "The request is invalid",
	tool.NotFound:    "Not found",
	tool.Conflict:    "Not possible in the current state",
	tool.Denied:      "Denied",
	tool.Limit:       "A limit was reached",
	tool.Timeout:     "It took too long",
	tool.Unavailable: "Unavailable",
	tool.Canceled:    "Canceled",
	tool.Internal:    "Internal error",
}

// WriteProblem writes an error as the API's clients expect it.
func WriteProblem(w http.ResponseWriter, err error) { writeError(w, err) }

func writeError(w http.ResponseWriter, err error) {
	e := tool.AsError(err)
	status := statusOf[e.Kind]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	if s := e.RetrySeconds(); s > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(s))
	}
	writeProblem(w, status, e)
}

// writeProblem writes an error with a status that its kind doesn't decide.
func writeProblem(w http.ResponseWriter, status int, e *tool.Error) {
	title := titles[e.Kind]
	if title == "" {
		title = titles[tool.Internal]
	}
	text, err := tool.Marshal(api.Problem{Type: pagePath + "#" + string(e.Kind), Title: title, Status: status,
		Detail: e.Msg, Error: api.Error{Kind: string(e.Kind), Message: e.Msg}})
	if err != nil {
		text = []byte(`{"status":500,"error":{"kind":"internal","message":"the error can't be encoded"}}`)
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(status)
	// An error means that the client has gone.
	_, _ = w.Write(append(text, '\n'))
}
