// Package identitytest provides an issuer of tokens for tests: an OpenID provider with real keys,
// over HTTP. Its metadata and signatures are real, but it issues tokens without asking a user.
package identitytest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Claims are the claims of a token, or the fields of its header. It is a map because a test may set
// any of them to a value of any type.
type Claims map[string]any

// An Issuer signs tokens, and serves its metadata and keys.
type Issuer struct {
	URL string // its identifier

	server *httptest.Server

	mu      sync.Mutex
	signing jose.JSONWebKey   // private
	serves  []jose.JSONWebKey // public
	fetches int               // requests for the keys
	down    bool
	serial  int
	codes   map[string]url.Values // pending authorizations, by code: the parameters of the request
	people  person
	paths   map[string]http.HandlerFunc // answers instead of its own, by path
}

// A person is whom the issuer signs in.
type person struct {
	claims, header Claims // changes of the ID token
	secret         string // of the client; empty: none is required
}

// SetPerson sets the changes of the ID tokens that are issued from now on, and the secret that the
// client must have.
func (i *Issuer) SetPerson(secret string, claims, header Claims) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.people = person{claims, header, secret}
}

// HandlePath makes f answer the requests for a path; nil restores the issuer's own answer.
func (i *Issuer) HandlePath(path string, f http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.paths == nil {
		i.paths = map[string]http.HandlerFunc{}
	}
	i.paths[path] = f
}

func (i *Issuer) handlerOf(path string) http.HandlerFunc {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.paths[path]
}

// NewIssuer starts an issuer on a loopback address, with one key, for ES256. Close stops it.
func NewIssuer() (*Issuer, error) {
	i := &Issuer{codes: map[string]url.Values{}}
	if err := i.RotateKey("ES256", true); err != nil {
		return nil, err
	}
	i.server = httptest.NewServer(i)
	i.URL = i.server.URL
	return i, nil
}

// Close stops the issuer.
func (i *Issuer) Close() { i.server.Close() }

// ServeHTTP serves the metadata and the keys. It issues tokens for the subject "ann" to clients
// that use PKCE, without asking a user.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := i.handlerOf(r.URL.Path); f != nil {
		f(w, r)
		return
	}
	var v any
	if r.URL.Path == "/token" {
		if v = i.exchangeCode(r); v == nil {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		v = i.describeIssuer()
	case "/authorize":
		q, code := r.URL.Query(), rand.Text()
		i.codes[code] = q
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(),
			http.StatusFound)
		return
	case "/keys":
		i.fetches++
		v = jose.JSONWebKeySet{Keys: i.serves}
	}
	if v == nil || i.down {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client went away
}

// metadata is an issuer's metadata (OpenID Connect Discovery 1.0, section 3).
type metadata struct {
	Issuer                string   `json:"issuer"`
	Keys                  string   `json:"jwks_uri"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	ResponseTypes         []string `json:"response_types_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	SubjectTypes          []string `json:"subject_types_supported"`
	SigningAlgorithms     []string `json:"id_token_signing_alg_values_supported"`
}

func (i *Issuer) describeIssuer() metadata {
	return metadata{
		Issuer: i.URL, Keys: i.URL + "/keys", AuthorizationEndpoint: i.URL + "/authorize",
		TokenEndpoint: i.URL + "/token", ResponseTypes: []string{"code"}, ChallengeMethods: []string{"S256"},
		AuthMethods:  []string{"none", "client_secret_basic"},
		SubjectTypes: []string{"public"}, SigningAlgorithms: []string{"RS256"},
	}
}

// A tokenAnswer is the answer to an exchanged code (RFC 6749, section 5.1).
type tokenAnswer struct {
	Token   string `json:"access_token"`
	Type    string `json:"token_type"`
	Seconds int    `json:"expires_in"`
	ID      string `json:"id_token,omitempty"`
}

// exchangeCode exchanges a code for a token, for the client and resource of the authorization (RFC
// 7636, RFC 8707). It returns nil if the code or verifier is wrong.
func (i *Issuer) exchangeCode(r *http.Request) any {
	i.mu.Lock()
	asked := i.codes[r.FormValue("code")]
	delete(i.codes, r.FormValue("code"))
	who := i.people
	i.mu.Unlock()
	_, password, _ := r.BasicAuth()
	if password, err := url.QueryUnescape(password); err != nil || password != who.secret { // RFC 6749, section 2.3.1
		return nil
	}
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if asked == nil || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
		return nil
	}
	token, err := i.SignToken(i.ValidClaims("ann", asked.Get("resource"), time.Now(),
		Claims{"scope": asked.Get("scope"), "client_id": asked.Get("client_id")}), nil)
	if err != nil {
		return nil
	}
	out := tokenAnswer{Token: token, Type: "Bearer", Seconds: 3600}
	if slices.Contains(strings.Fields(asked.Get("scope")), "openid") {
		claims := i.ValidClaims("ann", asked.Get("client_id"), time.Now(), Claims{"scope": nil, "client_id": nil,
			"nonce": asked.Get("nonce")})
		maps.Copy(claims, who.claims)
		maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
		header := Claims{"typ": "JWT"}
		maps.Copy(header, who.header)
		if out.ID, err = i.SignToken(claims, header); err != nil {
			return nil
		}
	}
	return out
}

// RotateKey creates a new key for an algorithm, signs with it from now on, and serves it. If alone
// is set, the old keys are no longer served.
func (i *Issuer) RotateKey(alg string, alone bool) error {
	var private any
	var err error
	switch alg {
	case "ES256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "EdDSA":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case "RS256", "PS256":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		err = fmt.Errorf("no keys for %s are made here", alg)
	}
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.serial++
	i.signing = jose.JSONWebKey{Key: private, KeyID: fmt.Sprintf("key-%d", i.serial), Algorithm: alg, Use: "sig"}
	if alone {
		i.serves = nil
	}
	i.serves = append(i.serves, i.signing.Public())
	return nil
}

// ServeKeys replaces the keys that are served.
func (i *Issuer) ServeKeys(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.serves = keys
}

// SigningKey returns the private signing key.
func (i *Issuer) SigningKey() jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.signing
}

// SetDown makes the issuer stop answering, or answer again.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// CountFetches returns the number of requests for the keys.
func (i *Issuer) CountFetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// ValidClaims returns the claims of a valid token of subject for audience, which expires in an
// hour, with changes. A nil value in change removes a claim.
func (i *Issuer) ValidClaims(subject, audience string, now time.Time, change Claims) Claims {
	c := Claims{
		"iss": i.URL, "sub": subject, "aud": audience, "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"nbf":   now.Unix(),
		"scope": "mcp api", "client_id": "agent-1",
	}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// SignToken signs claims, with additional header fields.
func (i *Issuer) SignToken(claims, header Claims) (string, error) {
	return SignClaims(i.SigningKey(), claims, header)
}

// SignClaims signs claims with a key: with its algorithm, and its id unless header has another
// "kid".
func SignClaims(key jose.JSONWebKey, claims, header Claims) (string, error) {
	o := (&jose.SignerOptions{}).WithType("at+jwt")
	for k, v := range header {
		if o.WithHeader(jose.HeaderKey(k), v); k == "kid" {
			key.KeyID, _ = v.(string)
		}
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, o)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := s.Sign(text)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
