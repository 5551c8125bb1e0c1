package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// completeArgument answers completion/complete: it calls "completion.complete" of the upstream that
// has the prompt or the template. A prompt or template that the principal may not see is not found.
func (s offerRequests) completeArgument(ctx context.Context, r *mcp.CompleteRequest) (mcp.Result, error) {
	from := readRequest(ctx, s.Server, r)
	ref := *r.Params.Ref
	find, name := findPrompt, &ref.Name
	if ref.Type == "ref/resource" {
		find, name = findTemplate, &ref.URI
	}
	visible, all := s.cfg.Catalog.ListOffers(ctx, from.principal)
	upstream, key, err := find(visible, *name, false)
	if errors.Is(err, errNoOffer) {
		upstream, key, err = find(visible, *name, true)
	}
	if err != nil {
		return nil, offerError(*name, err)
	}
	if !slices.ContainsFunc(all, func(o *tool.Offers) bool {
		return o.Upstream == upstream && hasMethod(o, tool.Complete)
	}) { // another upstream has completion, so that it is declared
		return &callResult{raw: json.RawMessage(`{"completion":{"values":[]}}`), modern: from.modern}, nil
	}
	*name = key
	args := methodArguments{Ref: &ref, Argument: &r.Params.Argument, Context: r.Params.Context}
	return s.callMethod(ctx, from, upstream+tool.CompleteSuffix, args, "")
}

// findTemplate finds a resource template, or the upstream of a resource.
func findTemplate(all []*tool.Offers, uri string, guess bool) (upstream, key string, err error) {
	for _, n := range templateKind.nameOffers(all) {
		if n.name == uri {
			return n.upstream, n.key, nil
		}
	}
	for _, o := range all {
		if rest, ok := strings.CutPrefix(uri, templateKind.addPrefix(o.Upstream, "")); ok &&
			hasMethod(o, tool.ReadResource) {
			return o.Upstream, rest, nil
		}
	}
	return findResource(all, uri, guess)
}
