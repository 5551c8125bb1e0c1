package openapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"

	"github.com/biplane-dev/biplane/internal/upstream/web"
)

const maxRedirects = 5

// A fileSource reads a document and its files below a folder.
type fileSource struct{ folder string }

func (s fileSource) readFile(_ context.Context, name string, most int) ([]byte, error) {
	return web.ReadFile(s.folder, name, most)
}

// A webSource reads a document and its files below the folder of a URL.
type webSource struct {
	web  *web.Clients
	url  *url.URL
	name string // of the document
}

func (s webSource) readFile(ctx context.Context, name string, most int) ([]byte, error) {
	u := *s.url
	if name != s.name {
		u.Path, u.RawPath, u.RawQuery = path.Join(path.Dir(s.url.Path), name), "", ""
	}
	at := &u
	for range maxRedirects {
		resp, err := s.getURL(ctx, at)
		if err != nil {
			return nil, err
		}
		location := resp.Header.Get("Location")
		if resp.StatusCode/100 == 3 && location != "" {
			_ = resp.Body.Close()
			next, err := at.Parse(location)
			if err != nil || next.Scheme != "https" && next.Scheme != at.Scheme {
				return nil, fmt.Errorf("it redirects to %q: not followed", web.ClipText(location))
			}
			at = next
			continue
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answered %d %s", at.Host, resp.StatusCode, http.StatusText(resp.StatusCode))
		}
		return web.ReadAtMost(resp.Body, most)
	}
	return nil, errors.New("it redirects too often")
}

func (s webSource) getURL(ctx context.Context, u *url.URL) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/yaml, application/json;q=0.9, */*;q=0.5")
	resp, err := s.web.ClientFor(web.SameOrigin(u, s.url)).Do(r)
	return resp, web.HideAddress(err)
}
