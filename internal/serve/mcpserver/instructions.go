package mcpserver

import (
	"context"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxInstructions is the maximum size of the instructions of all upstreams together.
const maxInstructions = 32 << 10

// instructionTime is how long a handshake waits for upstreams that are starting. Clients don't wait
// long for it.
const instructionTime = 5 * time.Second

// addInstructions adds to the answer to a handshake, in mode Direct, the instructions of the
// upstreams that a client sees, unless the endpoint has its own.
func (s offerRequests) addInstructions(ctx context.Context, software *mcp.Implementation, res mcp.Result) mcp.Result {
	p := s.principalOf(ctx, software)
	if e := s.endpoints.endpointOf(p); e.Mode != Direct || e.Instructions != "" {
		return res
	}
	ctx, cancel := context.WithTimeout(ctx, instructionTime)
	defer cancel()
	var names, texts []string
	size := 0
	for _, t := range s.cfg.Catalog.ListInstructions(ctx, p) {
		if size+len(t.Description) > maxInstructions {
			continue
		}
		size += len(t.Description)
		names, texts = append(names, t.Upstream), append(texts, t.Description)
	}
	if len(texts) > 1 {
		for i, name := range names {
			texts[i] = "# " + name + "\n\n" + lowerHeadings(texts[i])
		}
	}
	text := strings.Join(texts, "\n\n")
	switch r := res.(type) {
	case *mcp.InitializeResult:
		r.Instructions = text
	case *mcp.DiscoverResult:
		r.Instructions = text
	}
	return res
}

// lowerHeadings lowers the headings of a Markdown text by a level, so that no text can begin a part
// that seems to be of another upstream.
func lowerHeadings(text string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)) {
		switch start := strings.TrimSpace(line); {
		case strings.HasPrefix(start, "#"):
			out.WriteString("#" + strings.TrimLeft(line, " \t"))
		case start != "" && strings.Trim(start, "=") == "": // the line before it would be one
			out.WriteString("\\" + line)
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}
