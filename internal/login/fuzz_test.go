package login

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sasl"
	scramclient "github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// FuzzMessages sends any two messages to each mechanism that takes a password. No one logs in
// without one, and no message ends the broker.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("n,,n=bob,r=abc"), []byte("c=biws,r=abc,p=AAAA"))
	f.Add([]byte("\x00bob\x00wrong"), []byte{})
	f.Add([]byte("y,a=bob,n=bob,r=abc,tokenauth=true"), []byte("c=eSxhPWJvYiw=,r=abc,p="))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		w := newWorld(t, Options{})
		w.set("bob", "right", metadata.ScramSHA256)
		for _, mechanism := range []string{ScramSHA256, ScramSHA512, Plain} {
			c, err := w.Begin(mechanism, "")
			must.OK(t, err)
			for _, in := range [][]byte{first, second} {
				out, who, err := c.Step(in)
				if who != nil && !(mechanism == Plain && strings.HasSuffix(string(in), "\x00bob\x00right")) {
					t.Fatalf("%s: %+v", mechanism, who)
				}
				if len(out) > 2*maxMessage || err != nil && len(out) > 0 {
					t.Fatalf("%s: %q %v", mechanism, out, err)
				}
			}
		}
	})
}

// FuzzScramClient changes the messages of franz-go's client. It logs in exactly if nothing changed
// what it proves.
func FuzzScramClient(f *testing.F) {
	f.Add("bob", "right", byte(0), uint16(0), byte(0))
	f.Add("b=o,b", "p", byte(1), uint16(9), byte(1))
	f.Fuzz(func(t *testing.T, user, password string, which byte, at uint16, xor byte) {
		if !ValidName(user) || password == "" {
			return
		}
		w := newWorld(t, Options{})
		w.set(user, password, metadata.ScramSHA256)
		client := scramclient.Auth{User: user, Pass: password}.AsSha256Mechanism()
		who, err := w.talk(changed{client, int(which) % 2, int(at), xor}, "")
		if xor == 0 && err != nil {
			t.Fatal(err)
		}
		if who != nil && who.Principal != PrincipalType+user {
			t.Fatalf("%+v", who)
		}
	})
}

// changed is a client of which one message has a changed byte.
type changed struct {
	sasl.Mechanism
	which, at int
	xor       byte
}

func (c changed) change(message []byte) []byte {
	if len(message) > 0 {
		message = append([]byte(nil), message...)
		message[c.at%len(message)] ^= c.xor
	}
	return message
}

func (c changed) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	s, first, err := c.Mechanism.Authenticate(ctx, host)
	if c.which == 0 {
		first = c.change(first)
	}
	return changedSession{s, c}, first, err
}

type changedSession struct {
	sasl.Session
	changed
}

func (s changedSession) Challenge(in []byte) (bool, []byte, error) {
	done, out, err := s.Session.Challenge(in)
	if err != nil { // the client sees that its own message was changed
		return true, []byte("c=biws,r=,p="), nil
	}
	if s.which == 1 {
		out = s.change(out)
	}
	return done, out, nil
}

// FuzzBearer parses any first message of OAUTHBEARER.
func FuzzBearer(f *testing.F) {
	f.Add([]byte("n,,\x01auth=Bearer abc\x01\x01"))
	f.Add([]byte("y,a=bo=2Cb,\x01auth=bearer abc\x01k=v\x01\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		token, as, err := parseBearer(in)
		if err != nil && token+as != "" && token == "" {
			t.Fatal("a name without a token")
		}
		if err == nil && (token == "" || strings.ContainsRune(token, 1) || !strings.Contains(string(in), token)) {
			t.Fatalf("%q", token)
		}
	})
}

// FuzzToken checks any token: none is accepted, since none has a right signature.
func FuzzToken(f *testing.F) {
	keys := NewKeys(KeysOptions{Fetch: func(context.Context) ([]byte, error) {
		return []byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",` +
			`"y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`), nil
	}})
	must.OK(f, keys.read(f.Context()))
	tokens, err := NewTokens(TokenOptions{Keys: keys, Audience: []string{"a"}})
	must.OK(f, err)
	f.Add("eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJib2IiLCJhdWQiOiJhIiwiZXhwIjo5OTk5OTk5OTk5fQ.AAAA")
	f.Add("eyJhbGciOiJub25lIn0.eyJzdWIiOiJib2IifQ.")
	f.Fuzz(func(t *testing.T, token string) {
		if user, _, err := tokens.check(token, noEnd); err == nil {
			t.Fatalf("accepted as %s", user)
		}
	})
}
