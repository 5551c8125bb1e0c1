package sink

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An S3 is a Sink that stores each checkpoint as the object PREFIX/ORIGIN/SIZE in a bucket. SIZE
// has 20 digits, so that a listing is in order. With LockDays each object is locked in mode
// COMPLIANCE: until the lock ends, no one can remove or replace it, not even the owner of the
// account. The bucket must then have object lock enabled.
type S3 struct {
	Endpoint  string // "https://host"; empty: Amazon's endpoint of the region
	Bucket    string
	Prefix    string
	Region    string // "us-east-1" if empty
	AccessKey string
	SecretKey string
	Token     string // session token of temporary credentials; empty: none
	LockDays  int    // 0: not locked
	Client    *http.Client
	Clock     *wallclock.Clock // nil: the system's
}

// Name returns the kind of the sink, the bucket and the prefix.
func (s *S3) Name() string {
	return "s3 " + strings.Trim(s.Bucket+"/"+strings.Trim(s.Prefix, "/"), "/")
}

// objectKey returns the name of the object that holds c.
func (s *S3) objectKey(c Checkpoint) string {
	var parts []string
	if p := strings.Trim(s.Prefix, "/"); p != "" {
		parts = append(parts, p)
	}
	return strings.Join(append(parts, FileName(c)), "/")
}

// Put stores c.
func (s *S3) Put(ctx context.Context, c Checkpoint) error {
	region := s.Region
	if region == "" {
		region = "us-east-1"
	}
	endpoint := s.Endpoint
	if endpoint == "" {
		endpoint = "https://s3." + region + ".amazonaws.com"
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return tool.Errorf(tool.Invalid, "s3: invalid endpoint %q: write an address like https://host", endpoint)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + s.Bucket + "/" + s.objectKey(c)
	u.RawPath = percentEncode(u.Path, true) // the form that is signed
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.String(), bytes.NewReader([]byte(c.Text)))
	if err != nil {
		return tool.Errorf(tool.Invalid, "s3: invalid endpoint %q: write an address like https://host", endpoint)
	}
	// MD5 is required by object lock; nothing else depends on it.
	sum, check := sha256.Sum256([]byte(c.Text)), md5.Sum([]byte(c.Text))
	payload := hex.EncodeToString(sum[:])
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	req.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(check[:]))
	req.Header.Set("X-Amz-Content-Sha256", payload)
	if s.LockDays > 0 {
		req.Header.Set("X-Amz-Object-Lock-Mode", "COMPLIANCE")
		req.Header.Set("X-Amz-Object-Lock-Retain-Until-Date",
			s.Clock.Now().UTC().AddDate(0, 0, s.LockDays).Format(time.RFC3339))
	}
	credential{s.AccessKey, s.SecretKey, s.Token, region, "s3"}.signRequest(req, payload, s.Clock.Now())
	resp, err := withoutRedirects(s.Client).Do(req)
	if err != nil {
		return tool.Errorf(tool.Unavailable, "%s: %v", s.Name(), withoutAddress(err))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if resp.StatusCode/100 != 2 {
		return tool.Errorf(tool.Unavailable, "%s answered %s", s.Name(), s3Error(resp, text))
	}
	return err
}

// s3Error returns the error in a response.
func s3Error(resp *http.Response, text []byte) string {
	code, message := xmlElement(string(text), "Code"), xmlElement(string(text), "Message")
	if code == "" {
		return fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return fmt.Sprintf("%d %.100s: %.300s", resp.StatusCode, code, message)
}

// xmlElement returns the text of the first XML element with that name, or "" if there is none or it
// has children. It avoids package encoding/xml, which initializes tables in each process at its
// start.
func xmlElement(text, name string) string {
	_, after, _ := strings.Cut(text, "<"+name+">")
	inner, _, ends := strings.Cut(after, "</"+name+">")
	if !ends || strings.Contains(inner, "<") {
		return ""
	}
	return html.UnescapeString(strings.TrimSpace(inner))
}

// FileName returns the name of a checkpoint that is stored as its own file: ORIGIN/SIZE.
func FileName(c Checkpoint) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, c.Origin)
	return fmt.Sprintf("%s/%020d", strings.Trim(safe, "."), c.Size)
}
