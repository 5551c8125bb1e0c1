package cli

import (
	"context"
	"fmt"
	"io"
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
		Short: "Say what this host can do, and prove it",
		Long: `Checks the configuration, the data folder, every kind of sandbox and every upstream. In each sandbox that can run here it
runs programs that try to get out, or to take more than their share. With --probe it also becomes what a program would be
that had taken over the process of its engine, and tries everything from there: files, network, other processes,
privileges, the kernel. Exits with 4 when something that is needed fails, or something is not refused.`,
		Example: "  biplane doctor\n  biplane doctor --probe\n  biplane doctor -o json",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := a.logger("error")
			if err != nil {
				return err
			}
			dir, err := config.DataFolder(a.dataDir)
			if err != nil {
				return err
			}
			checks := daemon.Doctor(cmd.Context(), daemon.DoctorConfig{Config: a.config, DataDir: dir, Version: a.Version, Engine: engineArgs(), Probe: probe, Log: log})
			if err := cmd.Context().Err(); err != nil {
				return context.Cause(cmd.Context())
			}
			if err := a.print(output, checks, func(w io.Writer) { doctorTable(w, checks) }); err != nil {
				return err
			}
			for _, ch := range checks {
				if !ch.OK && ch.Needed {
					return told(exitUnable)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&probe, "probe", false, "try to get out of the engine's process")
	addOutput(c, &output)
	return c
}

func doctorTable(w io.Writer, checks []daemon.Check) {
	part := ""
	var rows [][]string
	for _, c := range checks {
		if c.Part != part {
			columns(w, rows...)
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
		for detail := range strings.SplitSeq(strings.TrimRight(c.Detail, "\n"), "\n") { // as of a configuration with many problems
			rows = append(rows, []string{"  " + mark, name, detail})
			mark, name = "", ""
		}
	}
	columns(w, rows...)
}
