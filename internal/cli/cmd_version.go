package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

const versionName = "version"

// build is the output of `version -o json`.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Commit   string `json:"commit,omitempty"`
}

func versionCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     versionName,
		Short:   "Print the version",
		Example: "  biplane version\n  biplane version -o json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			b := build{Version: a.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						b.Commit = s.Value
					}
				}
			}
			return a.printOutput(output, b, func(w io.Writer) {
				fmt.Fprintf(w, "biplane %s %s %s\n", b.Version, b.Go, b.Platform)
			})
		},
	}
	addOutput(c, &output)
	return c
}
