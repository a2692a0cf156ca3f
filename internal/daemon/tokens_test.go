package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A token bounds the session of its client, also without connections.max.reauth.ms: the broker says
// how long it lasts, and clients log in with a new token before that (KIP-368). They take a failure
// for a wrong token and give up.
func TestAClientWithATokenLogsInAgain(t *testing.T) {
	keys, sign := issuer(t)
	file := filepath.Join(t.TempDir(), "keys.json")
	must.OK(t, os.WriteFile(file, keys, 0o600))
	token := sign(map[string]any{"sub": "bob", "aud": "chronik", "exp": time.Now().Add(time.Hour).Unix()})
	b, _ := startHere(t, vfs.Memory(), "sasl=OAUTHBEARER", "oauth.jwks="+file, "oauth.audience=chronik",
		"connection.failed.authentication.delay.ms=0")
	bearer := oauth.Auth{Token: token}.AsMechanism()
	for begin := time.Now(); tryLogin(t, b, bearer) != nil; { // the keys are read in the background
		if time.Since(begin) > time.Minute {
			t.Fatal("the token is not accepted")
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.SASL(bearer), kgo.RequestRetries(0))
	must.OK(t, err)
	defer cl.Close()
	same := cl.SeedBrokers()[0] // its requests share a connection, whose login is the client's
	for range 2 {
		choice := kmsg.NewPtrSASLHandshakeRequest()
		choice.Mechanism = bearer.Name()
		chosen, err := same.Request(t.Context(), choice)
		must.OK(t, err)
		if code := chosen.(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
			t.Fatalf("another login is refused with %d", code)
		}
		login := kmsg.NewPtrSASLAuthenticateRequest()
		login.SASLAuthBytes = []byte("n,,\x01auth=Bearer " + token + "\x01\x01")
		resp, err := same.Request(t.Context(), login)
		must.OK(t, err)
		if r := resp.(*kmsg.SASLAuthenticateResponse); r.ErrorCode != 0 || r.SessionLifetimeMillis <= 0 {
			t.Errorf("logged in again with error %d, for %d ms", r.ErrorCode, r.SessionLifetimeMillis)
		}
	}
}

// issuer returns a new key as a file of oauth.jwks has it, and what makes tokens with that key.
func issuer(t *testing.T) (keys []byte, sign func(claims map[string]any) string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	keys, err = json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	must.OK(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	must.OK(t, err)
	return keys, func(claims map[string]any) string {
		t.Helper()
		token, err := jwt.Signed(signer).Claims(claims).Serialize()
		must.OK(t, err)
		return token
	}
}
