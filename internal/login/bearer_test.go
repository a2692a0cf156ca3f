package login

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// issuer signs tokens.
type issuer struct {
	*testing.T
	keys map[string]crypto.Signer // by id
}

func newIssuer(t *testing.T) *issuer {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	must.OK(t, err)
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	return &issuer{t, map[string]crypto.Signer{"small": small, "rsa": large, "ec": ec, "ed": ed}}
}

// set returns the issuer's public keys, and some others that must not be used.
func (i *issuer) set() []byte {
	var set jose.JSONWebKeySet
	for id, k := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Public(), KeyID: id})
	}
	set.Keys = append(set.Keys, jose.JSONWebKey{Key: i.keys["ec"].Public(), KeyID: "encryption", Use: "enc"},
		jose.JSONWebKey{Key: i.keys["rsa"].Public(), KeyID: "ps-only", Algorithm: "PS256"},
		jose.JSONWebKey{Key: []byte("a shared secret of at least 32 bytes"), KeyID: "shared"})
	text, err := json.Marshal(set)
	if err != nil {
		i.Fatal(err)
	}
	return []byte(strings.Replace(string(text), `"keys":[`, `"keys":[{"kty":"new","kid":"x"},`, 1))
}

// sign returns a token. The header may name another key than the one that signs.
func (i *issuer) sign(algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	i.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		i.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		i.Fatal(err)
	}
	return text
}

func claims(w *world, change ...any) map[string]any {
	c := map[string]any{"sub": "bob", "iss": "https://issuer", "aud": []string{"other", "chronik"}, "exp": w.now.Add(time.Hour).Unix(),
		"iat": w.now.Unix(), "name": "Robert"}
	for i := 0; i < len(change); i += 2 {
		if c[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(c, change[i].(string))
		}
	}
	return c
}

func newTokenWorld(t *testing.T, i *issuer, o TokenOptions) *world {
	o.Keys = NewKeys(KeysOptions{Fetch: func(context.Context) ([]byte, error) { return i.set(), nil }})
	must.OK(t, o.Keys.read(t.Context()))
	o.Issuer, o.Audience, o.Skew = "https://issuer", []string{"chronik", "kafka"}, 30*time.Second
	tokens, err := NewTokens(o)
	must.OK(t, err)
	return newWorld(t, Options{Tokens: tokens})
}

func (w *world) present(token string, host string) (*Identity, error) {
	w.Helper()
	return w.talk(oauth.Auth{Token: token, Extensions: map[string]string{"logicalCluster": "x"}}.AsMechanism(), host)
}

func TestTokensLogIn(t *testing.T) {
	i := newIssuer(t)
	w := newTokenWorld(t, i, TokenOptions{})
	for _, x := range []struct {
		algorithm jose.SignatureAlgorithm
		id        string
	}{{jose.RS256, "rsa"}, {jose.PS256, "rsa"}, {jose.ES256, "ec"}, {jose.EdDSA, "ed"}} {
		who, err := w.present(i.sign(x.algorithm, i.keys[x.id], x.id, claims(w)), "")
		if err != nil {
			t.Errorf("%s: %v", x.algorithm, err)
		} else if who.Principal != "User:bob" || who.Mechanism != OAuthBearer || !who.Expires.Equal(w.now.Add(time.Hour+30*time.Second)) {
			t.Errorf("%s: %+v", x.algorithm, who)
		}
	}
	late := i.sign(jose.ES256, i.keys["ec"], "ec", claims(w, "exp", w.now.Add(-20*time.Second).Unix()))
	if who, err := w.present(late, ""); err != nil ||
		!who.Expires.Equal(w.now.Add(10*time.Second)) {
		t.Errorf("a token that expired within the clocks' difference: %+v %v", who, err)
	}
	named := newTokenWorld(t, i, TokenOptions{PrincipalClaim: "name"})
	if who, err := named.present(i.sign(jose.ES256, i.keys["ec"], "ec", claims(w)), ""); err != nil || who.Principal != "User:Robert" {
		t.Errorf("%+v %v", who, err)
	}
	if _, err := NewTokens(TokenOptions{}); err == nil || !strings.Contains(err.Error(), "oauth.audience") {
		t.Errorf("tokens for any audience: %v", err)
	}
}

func TestWrongTokensAreRefused(t *testing.T) {
	i, stranger := newIssuer(t), newIssuer(t)
	w := newTokenWorld(t, i, TokenOptions{})
	ec := func(change ...any) string { return i.sign(jose.ES256, i.keys["ec"], "ec", claims(w, change...)) }
	pem, err := json.Marshal(jose.JSONWebKey{Key: i.keys["rsa"].Public()})
	must.OK(t, err)
	valid := ec()
	parts := strings.Split(valid, ".")
	unsigned := "eyJhbGciOiJub25lIiwia2lkIjoiZWMifQ." + parts[1] + "."
	for what, token := range map[string]string{
		"no token at all":              "x",
		"none":                         unsigned,
		"none with a signature":        unsigned + parts[2],
		"HS256 with the public key":    i.sign(jose.HS256, pem, "rsa", claims(w)),
		"HS256 with a shared key":      i.sign(jose.HS256, []byte("a shared secret of at least 32 bytes"), "shared", claims(w)),
		"RS512":                        i.sign(jose.RS512, i.keys["rsa"], "rsa", claims(w)),
		"a stranger's key":             i.sign(jose.ES256, stranger.keys["ec"], "ec", claims(w)),
		"another key than it names":    i.sign(jose.ES256, i.keys["ec"], "ed", claims(w)),
		"an unknown key":               i.sign(jose.ES256, i.keys["ec"], "new", claims(w)),
		"no key named":                 i.sign(jose.ES256, i.keys["ec"], "", claims(w)),
		"a small key":                  i.sign(jose.RS256, i.keys["small"], "small", claims(w)),
		"a key for encryption":         i.sign(jose.ES256, i.keys["ec"], "encryption", claims(w)),
		"a key for another algorithm":  i.sign(jose.RS256, i.keys["rsa"], "ps-only", claims(w)),
		"other claims":                 parts[0] + "." + parts[1][:len(parts[1])-2] + "." + parts[2],
		"no expiry":                    ec("exp", nil),
		"expired":                      ec("exp", w.now.Add(-31*time.Second).Unix()),
		"not valid yet":                ec("nbf", w.now.Add(31*time.Second).Unix()),
		"issued in the future":         ec("iat", w.now.Add(31*time.Second).Unix()),
		"another issuer":               ec("iss", "https://issuer/"),
		"no issuer":                    ec("iss", nil),
		"another audience":             ec("aud", "chronik2"),
		"no audience":                  ec("aud", nil),
		"no name":                      ec("sub", nil),
		"an empty name":                ec("sub", ""),
		"a name with a line break":     ec("sub", "bob\nadmin"),
		"a number as name":             ec("sub", 7),
		"a list as name":               ec("sub", []string{"bob"}),
		"an expiry that is no number":  ec("exp", "tomorrow"),
		"a name that is far too long":  ec("sub", strings.Repeat("x", 300)),
		"a token that is far too long": ec("pad", strings.Repeat("x", maxToken)),
	} {
		if token == "" {
			t.Fatal(what)
		}
		if who, err := w.present(token, ""); err == nil {
			t.Errorf("%s: %+v", what, who)
		}
	}
	c, err := w.Begin(OAuthBearer, "")
	must.OK(t, err)
	out, who, err := c.Step([]byte("n,,\x01auth=Bearer " + unsigned + "\x01\x01"))
	if string(out) != refusedToken || who != nil || err != nil {
		t.Errorf("%q %v %v", out, who, err)
	}
	if _, who, err := c.Step([]byte("n,,\x01auth=Bearer " + valid + "\x01\x01")); who != nil || err == nil {
		t.Errorf("a second token in one login: %v", who)
	}
	w.opt.MaxSession = 10 * time.Minute // shorter than the token's
	if who, err := w.present(valid, ""); err != nil || !who.Expires.Equal(w.now.Add(10*time.Minute)) {
		t.Errorf("%+v %v", who, err)
	}
}

func TestMessagesOfOAuthBearer(t *testing.T) {
	for in, want := range map[string]string{
		"n,,\x01auth=Bearer abc\x01\x01":                 "abc/",
		"y,a=bo=2Cb,\x01auth=bearer  abc\x01k=v\x01\x01": "abc/bo,b",
		"n,,\x01host=h\x01auth=Bearer abc\x01\x01":       "abc/",
		"":                              "",
		"n,,\x01\x01":                   "",
		"n,,\x01auth=Bearer abc\x01":    "",
		"n,,\x01auth=Basic abc\x01\x01": "",
		"n,,\x01auth=Bearer \x01\x01":   "",
		"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01":     "",
		"n,a=x,y,\x01auth=Bearer abc\x01\x01":               "",
		"n,b=x,\x01auth=Bearer abc\x01\x01":                 "",
		"p=tls-unique,,\x01auth=Bearer abc\x01\x01":         "",
		"n\x01auth=Bearer abc\x01\x01":                      "",
		"n,,\x01auth=Bearer abc\x01no pair\x01\x01":         "",
		"n,,auth=Bearer abc\x01\x01":                        "",
		"n,,\x01auth=Bearer abc\x01\x01more":                "",
		"n,a=eve,\x01auth=Bearer abc\x01=v\x01\x01":         "",
		"n,,\x01auth=Bearer " + strings.Repeat("x", 17<<10): "",
	} {
		token, as, err := parseBearer([]byte(in))
		if got := token + "/" + as; (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%.60q: %s, %v", in, got, err)
		}
	}
}

// Keys are read in the background: at once, at intervals, ten seconds after a failure, and when a
// token names an unknown one, but not twice in ten seconds. Bad sets leave the former ones in use.
func TestKeysAreReadInTheBackground(t *testing.T) {
	i := newIssuer(t)
	good := i.set()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var fetched []time.Duration
		began := time.Now()
		answer, failure := good, error(nil)
		k := NewKeys(KeysOptions{Every: time.Minute, Fetch: func(ctx context.Context) ([]byte, error) {
			if d, ok := ctx.Deadline(); !ok || time.Until(d) > fetchTimeout {
				t.Error("a fetch has no deadline")
			}
			mu.Lock()
			defer mu.Unlock()
			fetched = append(fetched, time.Since(began))
			return answer, failure
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); k.Run(ctx) }()
		next := func(text []byte, err error) {
			mu.Lock()
			defer mu.Unlock()
			answer, failure = text, err
		}
		step := func(d time.Duration, want ...time.Duration) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(fetched) != len(want) {
				t.Fatalf("fetched at %v, want %v", fetched, want)
			}
			for n := range want {
				if fetched[n] != want[n]*time.Second {
					t.Fatalf("fetched at %v, want %v", fetched, want)
				}
			}
		}
		step(0, 0)
		if k.find("ec") == nil || k.find("shared") != nil || k.State().Keys == 0 || k.State().Err != nil {
			t.Errorf("%+v", k.State())
		}
		for range 100 {
			k.find("unknown")
		}
		step(9*time.Second, 0)
		step(time.Second, 0, 10)
		step(60*time.Second, 0, 10, 70)
		next(nil, errors.New("down"))
		step(60*time.Second, 0, 10, 70, 130)
		next([]byte(`{"keys":[]}`), nil)
		step(10*time.Second, 0, 10, 70, 130, 140)
		next(make([]byte, maxKeySet+1), nil)
		step(10*time.Second, 0, 10, 70, 130, 140, 150)
		if k.find("ec") == nil || k.State().Err == nil || k.State().Read.IsZero() {
			t.Errorf("%+v", k.State())
		}
		next(good, nil)
		step(10*time.Second, 0, 10, 70, 130, 140, 150, 160)
		if k.State().Err != nil {
			t.Error(k.State().Err)
		}
		cancel()
		<-ended
	})
}

func TestKeysAreFetched(t *testing.T) {
	var other atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/keys":
			_, _ = w.Write([]byte("the keys"))
		case "/here":
			http.Redirect(w, r, "/keys", http.StatusFound)
		case "/elsewhere":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/huge":
			_, _ = w.Write(make([]byte, 2*maxKeySet))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{"/keys": "the keys", "/here": "the keys", "/elsewhere": "", "/missing": "", "/huge": ""} {
		fetch, err := FetchURL(server.URL + path)
		must.OK(t, err)
		text, err := fetch(t.Context())
		if path == "/huge" {
			if _, err = parseKeys(text); len(text) > maxKeySet+1 {
				t.Errorf("%d bytes were read", len(text))
			}
			text = nil
		}
		if string(text) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %.20q %v", path, text, err)
		}
	}
	if other.Load() != 0 {
		t.Error("a redirect led to another host")
	}
	for _, address := range []string{"", "keys.json", "file:///etc/passwd", "ftp://host/", "https://", "://"} {
		if _, err := FetchURL(address); err == nil {
			t.Errorf("%q is taken as a URL", address)
		}
	}
}
