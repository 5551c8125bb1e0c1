package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/daemon"
)

func imageCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Build, list, warm and remove the images that sandboxes are created from",
		Long: `Programs in process sandboxes have the programs and packages of this host. An image has more: Debian or
npm packages in a layer above the host's /usr, or all of an OCI image instead of it. A program names its
image with the argument image, or is given the first that has what it imports. Images are described in
the configuration (sandbox.images) or on the command line. They are kept in the data folder.`,
		Example: `  biplane image build data --python numpy,pandas
  biplane image
  biplane run --image data --language python -c 'import pandas; pandas.__version__'
  biplane image remove data`,
		Args: noArguments,
	}
	list := imageListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(imageBuildCommand(a), list, imageShowCommand(a), imageWarmCommand(a),
		imageRemoveCommand(a))
	return c
}

// openImages returns the images of the data folder.
func (a *app) openImages() (*daemon.Images, error) {
	cfg, err := a.daemonConfig("error")
	if err != nil {
		return nil, err
	}
	return daemon.NewImages(cfg.DataDir, cfg.Settings), nil
}

func imageBuildCommand(a *app) *cobra.Command {
	var content api.ImageContent
	var from api.ImageCopyRequest
	var output string
	c := &cobra.Command{
		Use:   "build NAME",
		Short: "Build an image from packages, an OCI image, or a sandbox",
		Long: `Builds an image as the configuration describes it (sandbox.images.NAME), or from the content that is
named here. It needs no root. Debian packages are those of the host's release and mirrors: run apt-get
update first if they are not found. Only what the host lacks is downloaded. Scripts of Debian and npm
packages are not run.

An OCI image is a layout (a folder), its archive, or an archive of docker save. It is for this host's
architecture, and replaces the host's /usr.

--from copies what pip install --user or npm install installed in a sandbox of your own (biplane
sandboxes). The new image is the image of that sandbox with these packages. Its processes are frozen
meanwhile. A sandbox with private data is refused. One that received data from the network needs
--untrusted: everyone who uses the image runs what is installed there.

The finished image replaces one of the same name. Sandboxes that run keep the old one.`,
		Example: `  biplane image build data
  biplane image build data --python numpy,pandas --packages jq
  biplane image build web --node zod,cheerio
  biplane image build own --oci ./image.tar
  biplane image build tools --from work --untrusted`,
		Args: exactlyOne("NAME", "a name for the image"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			for _, name := range []string{"python", "node", "packages", "oci"} {
				if from.Sandbox != "" && cmd.Flags().Changed(name) {
					return usageError("--from copies the packages of a sandbox: it can't be combined with --%s", name)
				}
			}
			i, err := buildImage(cmd.Context(), a, args[0], content, from)
			if err != nil {
				return err
			}
			return a.printOutput(output, i, func(w io.Writer) { imageText(w, *i) })
		},
	}
	f := c.Flags()
	f.StringSliceVar(&content.Python, "python", nil, "Python `modules`, from Debian's packages python3-...")
	f.StringSliceVar(&content.Node, "node", nil, "npm `packages`")
	f.StringSliceVar(&content.Packages, "packages", nil, "Debian `packages`")
	f.StringVar(&content.OCI, "oci", "", "the `path` of an OCI layout or archive")
	f.StringVar(&from.Sandbox, "from", "", "a `sandbox` of your own whose packages are copied")
	f.BoolVar(&from.Untrusted, "untrusted", false, "permit untrusted data in the sandbox")
	addOutput(c, &output)
	return c
}

// buildImage builds an image from content, or from a sandbox.
func buildImage(ctx context.Context, a *app, name string, content api.ImageContent, from api.ImageCopyRequest,
) (*api.Image, error) {
	if from.Sandbox != "" {
		return copyImage(ctx, a, name, from)
	}
	if from.Untrusted {
		return nil, usageError("--untrusted is about a sandbox: name it with --from")
	}
	all, err := a.openImages()
	if err != nil {
		return nil, err
	}
	i, err := all.BuildImage(ctx, name, content, func(line string) { fmt.Fprintln(a.Err, cleanLine(line)) })
	return &i, err
}

// copyImage builds an image from a sandbox.
func copyImage(ctx context.Context, a *app, name string, from api.ImageCopyRequest) (i *api.Image, err error) {
	err = a.withClient(ctx, func(ctx context.Context, client *api.Client) error {
		built, err := client.CopyImage(ctx, name, from)
		if err != nil {
			return err
		}
		for _, line := range built.Notes {
			fmt.Fprintln(a.Err, cleanLine(line))
		}
		i = &built.Image
		return nil
	})
	return i, err
}

func imageListCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the images",
		Example: "  biplane image list\n  biplane image list -o json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			all, err := a.openImages()
			if err != nil {
				return err
			}
			list, err := all.ListImages()
			if err != nil {
				return err
			}
			return a.printOutput(output, list, func(w io.Writer) { imageTable(w, list) })
		},
	}
	addOutput(c, &output)
	return c
}

func imageTable(w io.Writer, all []api.Image) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No images: sandboxes have the host's /usr. biplane image build NAME --python pandas "+
			"builds one.")
		return
	}
	rows := [][]string{{"IMAGE", "STATE", "BASE", "SIZE", "BUILT", "CONTENT"}}
	for _, i := range all {
		size, built := "-", "-"
		if i.Built != nil {
			size, built = text.Size(i.Bytes), momentOf(i.Built)
		}
		content := slices.Concat(i.Python, i.Node, i.Packages)
		if i.OCI != "" {
			content = append(content, i.OCI)
		}
		if i.From != "" {
			content = append(content, i.From)
		}
		rows = append(rows, []string{i.Name, i.State, i.Base, size, built,
			orDash(text.Cut(strings.Join(content, ", "), 60))})
	}
	writeColumns(w, rows...)
}

func imageShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show an image: what is in it, and what is mounted",
		Example: "  biplane image show data",
		Args:    exactlyOne("NAME", "the name of an image"),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := a.openImages()
			if err != nil {
				return err
			}
			i, err := all.ShowImage(args[0])
			if err != nil {
				return err
			}
			return a.printOutput(output, i, func(w io.Writer) { imageText(w, i) })
		},
	}
	addOutput(c, &output)
	return c
}

func imageText(w io.Writer, i api.Image) {
	rows := [][]string{{"image", i.Name}, {"state", i.State}, {"base", i.Base}, {"tier", i.Tier}}
	add := func(name string, values ...string) {
		if s := strings.Join(values, ", "); s != "" {
			rows = append(rows, []string{name, s})
		}
	}
	add("python", i.Python...)
	add("node", i.Node...)
	add("packages", i.Packages...)
	add("oci", i.OCI)
	add("from", i.From)
	add("warm", i.Warm...)
	for _, m := range i.Mounts {
		kind := "volume " + m.Volume
		if m.Shared {
			kind += ", shared"
		}
		if m.Folder != "" {
			kind = m.Folder
		}
		if m.ReadOnly {
			kind += ", read-only"
		}
		add("mount", m.Target+" = "+kind)
	}
	if i.Built != nil {
		add("built", momentOf(i.Built))
		add("size", fmt.Sprintf("%s in %d files", text.Size(i.Bytes), i.Files))
		add("digest", i.Digest)
	}
	add("installed", i.Installed...)
	for _, runtime := range slices.Sorted(maps.Keys(i.Modules)) {
		add("modules, "+runtime, text.Cut(strings.Join(i.Modules[runtime], ", "), 1000))
	}
	writeColumns(w, rows...)
}

func imageWarmCommand(a *app) *cobra.Command {
	var output string
	var req api.ImageWarmRequest
	c := &cobra.Command{
		Use:   "warm NAME",
		Short: "Start a sandbox of an image ahead, so that the next program need not wait",
		Long: `Starts a sandbox of an image now, with the modules imported that the configuration names (warm). It waits
for the next program of that language. Prints how many wait, and how long it takes to start and to claim
one. It helps only while biplane serve or biplane mcp runs: the sandbox ends with that process, or after
five minutes without a program.`,
		Example: "  biplane image warm data\n  biplane image warm web --language typescript",
		Args:    exactlyOne("NAME", "the name of an image"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				i, err := client.WarmImage(ctx, args[0], req)
				if err != nil {
					return err
				}
				return a.printOutput(output, i, func(w io.Writer) {
					writeColumns(w, [][]string{{"image", i.Image}, {"language", i.Language},
						{"ready", text.Count(i.Ready, "sandbox")}, {"start", roundTime(i.Start)},
						{"claim", roundTime(i.Claim)}, {"waits", text.Setting(i.For)}}...)
				})
			})
		},
	}
	c.Flags().StringVar(&req.Language, "language", "python", "the `language` of the programs")
	addOutput(c, &output)
	return c
}

// roundTime formats how long something took.
func roundTime(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

func imageRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an image that no sandbox uses",
		Example: "  biplane image remove data",
		Args:    exactlyOne("NAME", "the name of an image"),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := a.openImages()
			if err != nil {
				return err
			}
			if err := all.RemoveImage(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "removed image %s\n", args[0])
			return nil
		},
	}
}
