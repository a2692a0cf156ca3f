package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/daemon/exit"
	"github.com/chronik-io/chronik/internal/vfs"
)

const withLogins = "sasl=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN"

// clientOf returns a client that makes one attempt.
func clientOf(t *testing.T, b *Broker, m sasl.Mechanism) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.SASL(m), kgo.RequestRetries(0), kgo.RetryTimeout(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
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

func TestTheFirstUserOfAnEmptyDirectoryLogsIn(t *testing.T) {
	mem := vfs.Memory()
	cfg, err := resolve.Load(config.Input{Set: []string{withLogins},
		Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "off"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Start(t.Context(), Options{Config: cfg, FS: mem, Log: zap.NewNop(), Level: zap.NewAtomicLevel(), Version: "test",
		JournalFileSize: 1 << 20, JournalBytes: 16 << 20})
	if err == nil {
		_ = b.Close()
	}
	if e := (*exit.Error)(nil); !errors.As(err, &e) || e.Code != exit.Usage || !strings.Contains(err.Error(),
		"there are no users, so no client can log in; make the first one: chronikd user add NAME --data-dir /data") {
		t.Errorf("started without a user: %v", err)
	}
	add := func(password string, args ...string) (string, int) {
		var out bytes.Buffer
		code := Main(t.Context(), Process{Args: append([]string{"user", "add", "admin", "--data-dir", "/data"}, args...), FS: mem,
			In: strings.NewReader(password + "\nmore\n"), Out: &out, Err: &out, Exit: func(int) {}})
		if strings.Contains(out.String(), password) {
			t.Errorf("the password is shown: %s", &out)
		}
		return out.String(), code
	}
	if out, code := add("first password"); code != exit.OK || !strings.Contains(out, "user admin has a password now") {
		t.Fatalf("%d %s", code, out)
	}
	b, _ = startHere(t, mem, withLogins)
	if out, code := add("while it runs"); code == exit.OK {
		t.Errorf("a user was added to the directory of a broker that runs: %s", out)
	}
	for _, m := range []sasl.Mechanism{scram512("admin", "first password"),
		scram.Auth{User: "admin", Pass: "first password"}.AsSha256Mechanism(),
		saslplain.Auth{User: "admin", Pass: "first password"}.AsMechanism()} {
		if err := tryLogin(t, b, m); err != nil {
			t.Errorf("%s: %v", m.Name(), err)
		}
		if err := tryLogin(t, b, scram512("admin", "wrong")); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("a wrong password: %v", err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if out, code := add("second password"); code != exit.OK {
		t.Fatalf("%d %s", code, out)
	}
	b, _ = startHere(t, mem, withLogins)
	if err := tryLogin(t, b, scram512("admin", "second password")); err != nil {
		t.Error(err)
	}
	if err := tryLogin(t, b, scram512("admin", "first password")); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("the former password: %v", err)
	}
}

func TestTheFirstUsersComeFromAFileOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	mem := vfs.Memory()
	write("# first users\n\nadmin:SCRAM-SHA-512:with:colon\r\nbob:SCRAM-SHA-256:b\nbob:SCRAM-SHA-512:b\n", 0o600)
	b, _ := startHere(t, mem, withLogins, "bootstrap.users="+file)
	for user, password := range map[string]string{"admin": "with:colon", "bob": "b"} {
		if err := tryLogin(t, b, scram512(user, password)); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
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
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil { // it is needed once
		t.Fatal(err)
	}
	b, _ = startHere(t, mem, withLogins, "bootstrap.users="+file)
	if err := tryLogin(t, b, scram512("admin", "with:colon")); err != nil {
		t.Error(err)
	}
}

// A broker that has had users never gets those of a file: not when they were added otherwise, and
// not when all of them were removed. It does not need the file either.
func TestTheFirstUsersDoNotReplaceOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	mem := vfs.Memory()
	var out bytes.Buffer
	if code := Main(t.Context(), Process{Args: []string{"user", "add", "admin", "--data-dir", "/data"}, FS: mem,
		In: strings.NewReader("a\n"), Out: &out, Err: &out, Exit: func(int) {}}); code != exit.OK {
		t.Fatalf("%d %s", code, &out)
	}
	b, _ := startHere(t, mem, withLogins, "bootstrap.users="+file)
	admin := clientOf(t, b, scram512("admin", "a"))
	removed, err := admin.AlterUserSCRAMs(t.Context(), []kadm.DeleteSCRAM{{User: "admin", Mechanism: kadm.ScramSha256}}, nil)
	if err == nil {
		err = removed.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	if removed, err = admin.AlterUserSCRAMs(t.Context(), []kadm.DeleteSCRAM{{User: "admin", Mechanism: kadm.ScramSha512}},
		nil); err == nil {
		_ = removed // the session may end before the answer
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("eve:SCRAM-SHA-512:e\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, _ = startHere(t, mem, withLogins, "bootstrap.users="+file)
	for user, password := range map[string]string{"eve": "e", "admin": "a"} {
		if err := tryLogin(t, b, scram512(user, password)); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// A client that is logged in loses the connection when the user is removed or has a new password,
// and other users do not.
func TestSessionsEndWithTheirUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("admin:SCRAM-SHA-512:a\nbob:SCRAM-SHA-512:b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, _ := startHere(t, vfs.Memory(), withLogins, "bootstrap.users="+file)
	admin := clientOf(t, b, scram512("admin", "a"))
	bob, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.SASL(scram512("bob", "b")), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer bob.Close()
	if err := bob.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
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
