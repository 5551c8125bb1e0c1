package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// holder is an MCP server that tells the value of the environment variable KEY, as it is (leak) and
// backwards (mirror), and which process it is (process).
func holder() {
	s := mcp.NewServer(&mcp.Implementation{Name: "holder", Version: "1"}, nil)
	for _, name := range []string{"leak", "mirror", "process"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				text := []byte(os.Getenv("KEY"))
				switch name {
				case "mirror":
					slices.Reverse(text)
				case "process":
					text = strconv.AppendInt(nil, int64(os.Getpid()), 10)
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{
					Text: fmt.Sprintf("%s=%s", name, text)}}}, nil, nil
			})
	}
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
