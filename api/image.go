package api

import (
	"context"
	"net/url"
	"time"
)

// The states of an image.
const (
	ImageReady    = "ready"
	ImageUnbuilt  = "not built"
	ImageOutdated = "outdated" // the configuration describes other content than was built
)

// An ImageContent lists the sources of an image.
type ImageContent struct {
	Python   []string `json:"python,omitempty"`   // modules, from Debian's packages
	Node     []string `json:"node,omitempty"`     // npm packages
	Packages []string `json:"packages,omitempty"` // of Debian
	OCI      string   `json:"oci,omitempty"`      // path of an OCI layout or archive
	From     string   `json:"from,omitempty"`     // the sandbox whose packages were copied
}

// An Image is an image that sandboxes can be created from.
type Image struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Base  string `json:"base"` // "host": it is a layer above the host's /usr; "none"
	Tier  string `json:"tier"` // the weakest tier at which its programs run
	ImageContent
	Warm       []string            `json:"warm,omitempty"` // Python modules that are imported ahead
	Mounts     []ImageMount        `json:"mounts,omitempty"`
	Configured bool                `json:"configured"` // the configuration describes it
	Digest     string              `json:"digest,omitempty"`
	Built      *time.Time          `json:"built,omitempty"`
	Bytes      int64               `json:"bytes"`
	Files      int                 `json:"files"`
	Modules    map[string][]string `json:"modules,omitempty"`   // by runtime: "python", "js"
	Installed  []string            `json:"installed,omitempty"` // packages, with versions
}

// An ImageMount is a folder of the host, or a volume, in sandboxes of an image.
type ImageMount struct {
	Target   string `json:"target"`
	Folder   string `json:"folder,omitempty"`
	Volume   string `json:"volume,omitempty"`
	Shared   bool   `json:"shared,omitempty"` // all principals have the same volume
	ReadOnly bool   `json:"read_only"`
}

// An ImageWarmRequest asks for a sandbox of an image that waits for a program.
type ImageWarmRequest struct {
	Language string `json:"language,omitempty"` // of the program; default python
}

// An ImageWarmth describes the sandboxes of an image that wait for a program.
type ImageWarmth struct {
	Image    string        `json:"image"`
	Language string        `json:"language"`
	Ready    int           `json:"ready"` // how many wait
	Start    time.Duration `json:"start"` // how long it took to start one, with its imports
	Claim    time.Duration `json:"claim"` // how long it took to claim one, until it answered
	For      time.Duration `json:"for"`   // how long one waits
}

// An ImageCopyRequest asks for an image of what was installed in a sandbox of the caller.
type ImageCopyRequest struct {
	Sandbox string `json:"sandbox"` // its id or name
	// Untrusted permits data with the label untrusted, such as packages from the network.
	Untrusted bool `json:"untrusted,omitempty"`
}

// A CopiedImage is an image that was built from a sandbox.
type CopiedImage struct {
	Image
	Notes []string `json:"notes"` // what was copied, and what was left out
}

// CopyImage builds an image from what was installed in a sandbox of the caller.
func (c *Client) CopyImage(ctx context.Context, image string, r ImageCopyRequest) (*CopiedImage, error) {
	return post[*CopiedImage](ctx, c, "/images/"+url.PathEscape(image)+"/copy", r)
}

// WarmImage makes Biplane start a sandbox of an image ahead, now.
func (c *Client) WarmImage(ctx context.Context, image string, r ImageWarmRequest) (*ImageWarmth, error) {
	return post[*ImageWarmth](ctx, c, "/images/"+url.PathEscape(image)+"/warm", r)
}
