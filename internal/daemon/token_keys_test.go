package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Tokens are checked with the keys of oauth.jwks, and for everything that the configuration asks
// for. The metrics and findings say in what state the keys are.
func TestTokensAreCheckedAsConfigured(t *testing.T) {
	keys, sign := issuer(t)
	file := filepath.Join(t.TempDir(), "keys.json")
	start := func() (b *Broker, ask func(string) (int, map[string]any)) {
		return startHere(t, vfs.Memory(), "sasl=OAUTHBEARER", "oauth.jwks="+file, "oauth.issuer=https://issuer",
			"oauth.audience=kafka, chronik", "oauth.principal-claim=name", "oauth.clock-skew=0s",
			"connection.failed.authentication.delay.ms=1")
	}
	without, ask := start()
	awaitScrape(t, without, "chronik_token_keys_failed 1\n")
	if got := found(t, ask); !strings.Contains(got, "bad tokens token keys: "+file+" cannot be read") {
		t.Errorf("without keys: %s", got)
	}
	must.OK(t, os.WriteFile(file, keys, 0o600))
	b, ask := start()
	awaitScrape(t, b, "chronik_token_keys_age_seconds ")
	if got := found(t, ask); strings.Contains(got, "token keys") {
		t.Errorf("with keys: %s", got)
	}
	for change, value := range map[string]any{"": nil, "aud": "other", "iss": "https://other", "name": nil,
		"exp": time.Now().Add(-5 * time.Second).Unix()} {
		claims := map[string]any{"aud": "chronik", "iss": "https://issuer", "name": "bob", "sub": "x", "iat": time.Now().Unix() - 60,
			"exp": time.Now().Add(time.Hour).Unix()}
		if claims[change] = value; value == nil {
			delete(claims, change)
		}
		err := tryLogin(t, b, oauth.Auth{Token: sign(claims)}.AsMechanism())
		if change == "" && err != nil || change != "" && !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("with another %s: %v", change, err)
		}
	}
}

// awaitScrape waits until the scrape has a line that begins with some text.
func awaitScrape(t *testing.T, b *Broker, text string) {
	t.Helper()
	for !strings.Contains(body(t, b, "/metrics"), "\n"+text) {
		runtime.Gosched()
	}
}
