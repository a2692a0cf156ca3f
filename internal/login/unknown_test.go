package login

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// sorted returns shapes without what may differ: the order of names, and lists without entries.
func sorted(s *shapes) shapes {
	out := shapes{scram: map[metadata.ScramMechanism][]shapeCount{}, plain: s.plain, names: map[metadata.ScramMechanism][]string{}}
	for m, counts := range s.scram {
		if len(counts) > 0 {
			out.scram[m], out.names[m] = counts, slices.Sorted(slices.Values(s.names[m]))
		}
	}
	return out
}

// credentialOf returns a credential of some shape, which no password fits.
func credentialOf(m metadata.ScramMechanism, iterations int32, salt string) metadata.Credential {
	key := secret.New(make([]byte, hashOf(m)().Size()))
	return metadata.Credential{Mechanism: m, Iterations: iterations, Salt: secret.Of(salt), StoredKey: key, ServerKey: key}
}

// Whatever the changes of users were, the shapes are those of the users that there are now. What a
// login has read of an earlier state stays as it was.
func TestShapesFollowEachChange(t *testing.T) {
	w := newWorld(t, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var events []metadata.Event
		for range 1 + random.IntN(4) { // the same user may change twice
			name := fmt.Sprint("u", random.IntN(12))
			u := metadata.User{Name: name}
			for _, m := range []metadata.ScramMechanism{metadata.ScramSHA256, metadata.ScramSHA512} {
				if random.IntN(3) > 0 {
					u = u.With(credentialOf(m, cheap+int32(random.IntN(2)), "0123456789abcdef0123"[random.IntN(2):]))
				}
			}
			e := metadata.Event{Key: metadata.UserKey(name), Deleted: len(u.Credentials) == 0}
			if !e.Deleted {
				e.Value = u.Encode()
			}
			events = append(events, e)
		}
		before := w.shapes.Load()
		was := sorted(before)
		w.write(events...)
		if !reflect.DeepEqual(sorted(before), was) {
			t.Fatalf("%v was changed to %v", was, sorted(before))
		}
		var all []string
		for u := range w.image.Users() {
			all = append(all, u.Name)
		}
		if got, want := sorted(w.shapes.Load()), sorted(newCensus().change(metadata.Empty(), w.image, all)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

func BenchmarkOneChangeAmong10000Users(b *testing.B) {
	l, image := New(Options{}), metadata.Empty()
	write := func(i int) {
		var u metadata.User
		for _, m := range []metadata.ScramMechanism{metadata.ScramSHA256, metadata.ScramSHA512} {
			u = u.With(credentialOf(m, DefaultIterations, "0123456789abcdef01234567"))
		}
		next, delta, err := image.Apply(metadata.Batch{Revision: image.Version() + 1,
			Events: []metadata.Event{{Key: metadata.UserKey(fmt.Sprint("u", i)), Value: u.Encode()}}})
		if err == nil {
			err = l.Follow(context.Background(), image, next, delta)
		}
		must.OK(b, err)
		image = next
	}
	for i := range 10_000 {
		write(i)
	}
	i := 0
	for b.Loop() {
		write(i % 10_000)
		i++
	}
}
