package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

const withLogins = "sasl=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN"

// clientOf returns a client that makes one attempt.
func clientOf(t *testing.T, b *Broker, m sasl.Mechanism) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.SASL(m), kgo.RequestRetries(0), kgo.RetryTimeout(5*time.Second))
	must.OK(t, err)
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

func scram512(user, password string) sasl.Mechanism {
	return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
}

// tryLogin logs a client in and asks for the topics.
func tryLogin(t *testing.T, b *Broker, m sasl.Mechanism) error {
	t.Helper()
	_, err := clientOf(t, b, m).ListTopics(t.Context())
	return err
}

func TestTheFirstUsersComeFromAFileOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		must.OK(t, os.WriteFile(file, []byte(text), mode))
		must.OK(t, os.Chmod(file, mode))
	}
	mem := vfs.Memory()
	write("# first users\n\nadmin:SCRAM-SHA-512:with:colon\r\nbob:SCRAM-SHA-256:b\nbob:SCRAM-SHA-512:b\n", 0o600)
	b, _ := startHere(t, mem, withLogins, "bootstrap.users="+file)
	for user, password := range map[string]string{"admin": "with:colon", "bob": "b"} {
		if err := tryLogin(t, b, scram512(user, password)); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	must.OK(t, b.Close())
	write("eve:SCRAM-SHA-512:e\nadmin:SCRAM-SHA-512:other\n", 0o600)
	b, _ = startHere(t, mem, withLogins, "bootstrap.users="+file)
	if err := errors.Join(tryLogin(t, b, scram512("admin", "with:colon"))); err != nil {
		t.Error(err)
	}
	for user, password := range map[string]string{"eve": "e", "admin": "other"} {
		if err := tryLogin(t, b, scram512(user, password)); err == nil {
			t.Errorf("the file was applied twice: %s", user)
		}
	}
	must.OK(t, b.Close())
	if err := os.Remove(file); err != nil { // it is needed once
		t.Fatal(err)
	}
	b, _ = startHere(t, mem, withLogins, "bootstrap.users="+file)
	if err := tryLogin(t, b, scram512("admin", "with:colon")); err != nil {
		t.Error(err)
	}
}

// A client that is logged in loses the connection when the user is removed or has a new password,
// and other users do not.
func TestSessionsEndWithTheirUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	must.OK(t, os.WriteFile(file, []byte("admin:SCRAM-SHA-512:a\nbob:SCRAM-SHA-512:b\n"), 0o600))
	b, _ := startHere(t, vfs.Memory(), withLogins, "bootstrap.users="+file)
	admin := clientOf(t, b, scram512("admin", "a"))
	bob, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.SASL(scram512("bob", "b")), kgo.RequestRetries(0))
	must.OK(t, err)
	defer bob.Close()
	must.OK(t, bob.Ping(t.Context()))
	answers, err := admin.AlterUserSCRAMs(t.Context(), nil,
		[]kadm.UpsertSCRAM{{User: "bob", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "new"}})
	if err = errors.Join(err, answers.Error()); err != nil {
		t.Fatal(err)
	}
	// The answer to the change comes after the end of the sessions.
	if err := bob.Ping(t.Context()); err == nil {
		t.Fatal("a session outlives its password")
	}
	if err := tryLogin(t, b, scram512("bob", "b")); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("the former password: %v", err)
	}
	if err := tryLogin(t, b, scram512("bob", "new")); err != nil {
		t.Error(err)
	}
	if _, err := admin.ListTopics(t.Context()); err != nil {
		t.Errorf("another user's session: %v", err)
	}
	answers, err = admin.AlterUserSCRAMs(t.Context(), []kadm.DeleteSCRAM{{User: "bob", Mechanism: kadm.ScramSha512}}, nil)
	if err = errors.Join(err, answers.Error()); err != nil {
		t.Fatal(err)
	}
	if err := tryLogin(t, b, scram512("bob", "new")); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a removed user: %v", err)
	}
}
