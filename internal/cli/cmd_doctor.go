package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
)

func doctorCommand(a *app) *cobra.Command {
	var output string
	var probe bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check this host, and test its sandboxes",
		Long: `Checks the configuration, the data folder, every kind of sandbox and every upstream. In
each sandbox that works on this host it runs programs that try to break out or to exceed their limits.
With --probe it also acts as a program that has taken over its engine's process. From there it tries
files, the network, other processes, privileges and the kernel. Exits with 4 if something required
fails, or if an attempt is not refused. A kind of sandbox that can't run here is only a warning,
unless it is the cheapest that the configuration allows.`,
		Example: "  biplane doctor\n  biplane doctor --probe\n  biplane doctor -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := a.newLogger("error")
			if err != nil {
				return err
			}
			dir, err := config.DataFolder(a.dataDir)
			if err != nil {
				return err
			}
			checks := daemon.Doctor(cmd.Context(), daemon.DoctorConfig{
				Config: a.config, DataDir: dir, Key: os.Getenv(keyVariable), Version: a.Version,
				Engine: engineArgs(), Probe: probe, Log: log,
			})
			if err := cmd.Context().Err(); err != nil {
				return context.Cause(cmd.Context())
			}
			if err := a.printOutput(output, checks, func(w io.Writer) { doctorTable(w, checks) }); err != nil {
				return err
			}
			for _, ch := range checks {
				if !ch.OK && ch.Needed {
					return failSilently(exitUnable)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&probe, "probe", false, "try to break out of the engine's process")
	addOutput(c, &output)
	return c
}

func doctorTable(w io.Writer, checks []daemon.Check) {
	part := ""
	var rows [][]string
	for _, c := range checks {
		if c.Part != part {
			writeColumns(w, rows...)
			if part != "" {
				fmt.Fprintln(w)
			}
			fmt.Fprintln(w, c.Part)
			part, rows = c.Part, nil
		}
		mark := "ok"
		switch {
		case !c.OK && c.Needed:
			mark = "FAIL"
		case !c.OK:
			mark = "warn"
		}
		name := c.Name
		// for example, a configuration with many errors
		for detail := range strings.SplitSeq(strings.TrimRight(c.Detail, "\n"), "\n") {
			rows = append(rows, []string{"  " + mark, name, detail})
			mark, name = "", ""
		}
	}
	writeColumns(w, rows...)
}
