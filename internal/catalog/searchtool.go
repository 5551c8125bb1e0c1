package catalog

import (
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/tool"
)

func (c *Catalog) answer(args json.RawMessage) (*tool.Result, error) {
	return tool.Text(false, ""), nil
}
