package login

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// world is a metadata store of users, and Logins that follow it.
type world struct {
	*testing.T
	*Logins
	image *metadata.Image
	now   time.Time
	steps int // of the last talk
}

// cheap is the number of iterations in tests: the least that is allowed.
const cheap = metadata.MinScramIterations

func newWorld(t *testing.T, o Options) *world {
	w := &world{T: t, image: metadata.Empty(), now: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}
	o.Now = func() time.Time { return w.now }
	w.Logins = New(o)
	w.write(metadata.Event{Key: metadata.LoginsKey, Value: metadata.Logins{Salt: secret.Of(strings.Repeat("s", 32))}.Encode()})
	return w
}

func (w *world) write(events ...metadata.Event) {
	w.Helper()
	next, delta, err := w.image.Apply(metadata.Batch{Revision: w.image.Version() + 1, Events: events})
	if err != nil {
		w.Fatal(err)
	}
	if err := w.Follow(context.Background(), w.image, next, delta); err != nil {
		w.Fatal(err)
	}
	w.image = next
}

// set gives a user a password, for both mechanisms unless others are named.
func (w *world) set(user, password string, mechanisms ...metadata.ScramMechanism) {
	w.Helper()
	if len(mechanisms) == 0 {
		mechanisms = []metadata.ScramMechanism{metadata.ScramSHA256, metadata.ScramSHA512}
	}
	u := metadata.User{Name: user}
	for _, m := range mechanisms {
		c, err := NewCredential(m, secret.Of(password), cheap)
		if err != nil {
			w.Fatal(err)
		}
		u = u.With(c)
	}
	w.write(metadata.Event{Key: metadata.UserKey(user), Value: u.Encode()})
}

func (w *world) remove(user string) {
	w.write(metadata.Event{Key: metadata.UserKey(user), Deleted: true})
}

// talk runs a whole conversation with a client of franz-go.
func (w *world) talk(client sasl.Mechanism, host string) (*Identity, error) {
	w.Helper()
	server, err := w.Begin(client.Name(), host)
	if err != nil {
		return nil, err
	}
	session, message, err := client.Authenticate(context.Background(), "host")
	if err != nil {
		w.Fatal(err)
	}
	for w.steps = 1; w.steps < 5; w.steps++ {
		out, who, err := server.Step(message)
		if err != nil {
			var f *Failure
			if who != nil || len(out) > 0 || !errors.As(err, &f) {
				w.Fatalf("%v %q %v", who, out, err)
			}
			return nil, err
		}
		done, next, err := session.Challenge(out)
		if who != nil {
			if !done || err != nil {
				w.Fatalf("the broker accepts, but the client has done=%v, %v", done, err)
			}
			return who, nil
		}
		if err != nil && client.Name() != OAuthBearer {
			w.Fatal(err)
		}
		message = next
		if err != nil { // RFC 7628: the client answers an error with one byte
			message = []byte{1}
		}
	}
	w.Fatal("the conversation does not end")
	return nil, nil
}
