package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/plaintext"
)

// Limits of a list of resources, templates or prompts, and of each definition in it.
const (
	maxOffers       = 1000
	maxOfferPages   = 50
	maxOfferBytes   = 8 << 20
	maxOffer        = 64 << 10
	maxOfferKey     = 4 << 10 // of a URI or a name
	maxInstructions = 8 << 10
	offerTime       = 10 * time.Second // for all lists: calls of tools wait for them
)

// listOffers lists the resources, templates and prompts of a server. A list that fails is cut
// short, and doesn't affect the others. patience is the timeout of one page.
func (s *session) listOffers(ctx context.Context, upstream string, patience time.Duration) (*tool.Offers, error) {
	ctx, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	var methods []string
	if s.resources {
		methods = append(methods, tool.ReadResource, tool.ListResources, tool.ListTemplates)
	}
	if s.prompts {
		methods = append(methods, tool.GetPrompt, tool.ListPrompts)
	}
	if s.completions {
		methods = append(methods, tool.Complete)
	}
	if s.subscribes {
		methods = append(methods, tool.Subscribe)
	}
	o := tool.NewOffers(upstream, methods...)
	o.Instructions = describeServer(upstream, s.instructions)
	var errs []error
	list := func(to *[]tool.Offer, method, member, key string) {
		all, err := s.listKind(ctx, query{method: method, idle: patience}, member, key)
		if err != nil {
			errs = append(errs, err)
		}
		*to = all
	}
	if s.resources {
		list(&o.Resources, "resources/list", "resources", "uri")
		list(&o.Templates, "resources/templates/list", "resourceTemplates", "uriTemplate")
	}
	if s.prompts {
		list(&o.Prompts, "prompts/list", "prompts", "name")
	}
	return o, errors.Join(errs...)
}

// describeServer returns a definition with the instructions of a server. Very long ones are cut.
func describeServer(upstream, text string) *tool.Tool {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	raw := append([]byte(`{"name":"`+tool.InstructionsName+`","description":`),
		quoteString(clipText(text, maxInstructions))...)
	t, err := parseTool(append(raw, '}'))
	if err != nil {
		return nil
	}
	t.Upstream = upstream
	return t
}

// listKind lists one kind, page by page, up to the limits. Invalid and repeated definitions are
// left out. member is the member of the result with the definitions, and key the member of a
// definition that identifies it.
func (s *session) listKind(ctx context.Context, q query, member, key string) (all []tool.Offer, err error) {
	seen, cursors, size := map[string]bool{}, map[string]bool{}, 0
	for range maxOfferPages {
		answer, err := s.sendRequest(ctx, q)
		if e, ok := wireError(err); ok && len(cursors) == 0 && e.Code == -32601 {
			return nil, nil // it has none
		}
		if err != nil {
			return all, err
		}
		var v map[string]json.RawMessage
		var page []json.RawMessage
		if json.Unmarshal(answer, &v) != nil || json.Unmarshal(v[member], &page) != nil {
			return all, faultf(faultGarbled, "sent an invalid answer to %s", q.method)
		}
		if size += len(answer); size > maxOfferBytes {
			return all, faultf(faultSize, "answers %s with more than %s", q.method, byteSize(maxOfferBytes))
		}
		for _, raw := range page {
			o, ok := readOffer(raw, key)
			if !ok || seen[o.Key] {
				continue
			}
			if len(all) == maxOffers {
				return all, faultf(faultSize, "answers %s with more than %d entries", q.method, maxOffers)
			}
			seen[o.Key] = true
			all = append(all, o)
		}
		cursor := decodeString(v["nextCursor"])
		if cursor == "" {
			return all, nil
		}
		if cursors[cursor] {
			return all, faultf(faultGarbled, "answered %s with the same cursor twice", q.method)
		}
		cursors[cursor] = true
		q.fields = append([]byte(`"cursor":`), quoteString(cursor)...)
	}
	return all, faultf(faultSize, "answers %s with more than %d pages", q.method, maxOfferPages)
}

// readOffer reads a definition, and removes hidden characters from its texts. It reports false if
// the definition is invalid.
func readOffer(raw json.RawMessage, key string) (tool.Offer, bool) {
	var f map[string]json.RawMessage
	if len(raw) > maxOffer || !isObject(raw) || json.Unmarshal(raw, &f) != nil {
		return tool.Offer{}, false
	}
	shown, err := plaintext.Definition(raw)
	if err != nil {
		return tool.Offer{}, false
	}
	o := tool.Offer{Key: decodeString(f[key]), Raw: shown}
	return o, o.Key != "" && len(o.Key) <= maxOfferKey && checkHiddenText(o.Key)
}

// checkHiddenText reports whether s has no hidden characters.
func checkHiddenText(s string) bool { return !slices.ContainsFunc([]rune(s), isHidden) }

func sameOffers(a, b *tool.Offers) bool {
	if a == nil || b == nil {
		return a == b
	}
	same := func(x, y tool.Offer) bool { return x.Key == y.Key && bytes.Equal(x.Raw, y.Raw) }
	named := func(x, y *tool.Tool) bool { return x.Name == y.Name }
	if x, y := a.Instructions, b.Instructions; x != y && (x == nil || y == nil || !bytes.Equal(x.Raw, y.Raw)) {
		return false
	}
	return slices.EqualFunc(a.Tools, b.Tools, named) && slices.EqualFunc(a.Resources, b.Resources, same) &&
		slices.EqualFunc(a.Templates, b.Templates, same) && slices.EqualFunc(a.Prompts, b.Prompts, same)
}

// answerFromLists answers a call that lists resources, templates or prompts with the connection's
// list. The second result is false for other calls.
func (u *Upstream) answerFromLists(method string) (*tool.Result, bool, error) {
	u.mu.Lock()
	o := u.snap.Offers
	u.mu.Unlock()
	if o == nil {
		o = &tool.Offers{}
	}
	var member string
	var all []tool.Offer
	switch method {
	case tool.ListResources:
		member, all = "resources", o.Resources
	case tool.ListTemplates:
		member, all = "resourceTemplates", o.Templates
	case tool.ListPrompts:
		member, all = "prompts", o.Prompts
	default:
		return nil, false, nil
	}
	list := make([]json.RawMessage, len(all))
	for i, x := range all {
		list[i] = x.Raw
	}
	raw, err := tool.Marshal(map[string][]json.RawMessage{member: list})
	if err != nil {
		return nil, true, err
	}
	res, err := tool.StructuredResult(raw)
	return res, true, err
}
