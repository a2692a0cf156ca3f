package chronikd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestTheFirstUserOfAnEmptyDirectoryLogsIn(t *testing.T) {
	mem := vfs.Memory()
	b, err := tryStart(t, mem, []string{withLogins}, here())
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
	const later = "user admin gets the password when the broker of /data is started"
	if out, code := add("first password"); code != exit.OK || !strings.Contains(out, later) || strings.Contains(out, "no broker") {
		t.Fatalf("%d %s", code, out)
	}
	b = start(t, mem, withLogins)
	if out, code := add("while it runs"); code != exit.OK || !strings.Contains(out, "user admin has a password now") {
		t.Errorf("%d %s", code, out)
	}
	if err := tryLogin(t, b, scram512("admin", "while it runs")); err != nil {
		t.Error(err)
	}
	if out, code := add("first password"); code != exit.OK {
		t.Errorf("%d %s", code, out)
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
	if out, code := add("second password"); code != exit.OK || !strings.Contains(out, later) || strings.Contains(out, "no broker") {
		t.Fatalf("%d %s", code, out)
	}
	b = start(t, mem, withLogins)
	if err := tryLogin(t, b, scram512("admin", "second password")); err != nil {
		t.Error(err)
	}
	if err := tryLogin(t, b, scram512("admin", "first password")); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("the former password: %v", err)
	}
}

// Without a configuration the directory is below the working directory, which may be a mistake. The
// answer has its absolute path.
func TestAUserOfADirectoryThatNoBrokerHasUsed(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code := Main(t.Context(), Process{Args: []string{"user", "add", "admin"}, In: strings.NewReader("a\n"), Out: &out, Err: &out,
		Exit: func(int) {}})
	if at := filepath.Join(dir, "data"); code != exit.OK || !strings.Contains(out.String(), "the broker of "+at+" is started\n") ||
		!strings.Contains(out.String(), "no broker has used "+at+" yet; ") {
		t.Errorf("%d %s", code, &out)
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
	b := start(t, mem, withLogins, "bootstrap.users="+file)
	admin := kadm.NewClient(clientOf(t, b, kgo.SASL(scram512("admin", "a"))))
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
	b = start(t, mem, withLogins, "bootstrap.users="+file)
	for user, password := range map[string]string{"eve": "e", "admin": "a"} {
		if err := tryLogin(t, b, scram512(user, password)); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// Users that are added while no broker runs are all set at its start, with lines in the audit log
// that do not have the passwords.
func TestUsersAddedOfflineAreRecorded(t *testing.T) {
	file, mem := filepath.Join(t.TempDir(), "audit.log"), vfs.Memory()
	for _, line := range []string{"admin canary", "other second", "other third"} {
		name, password, _ := strings.Cut(line, " ")
		var out bytes.Buffer
		if code := Main(t.Context(), Process{Args: []string{"user", "add", name, "--data-dir", "/data"}, FS: mem,
			In: strings.NewReader(password + "\n"), Out: &out, Err: &out, Exit: func(int) {}}); code != exit.OK {
			t.Fatalf("%d %s", code, &out)
		}
	}
	left, err := vfs.ReadFile(mem, "/data/new-users")
	if err != nil || bytes.Contains(left, []byte("canary")) || bytes.Contains(left, []byte("third")) {
		t.Errorf("%s %v", left, err)
	}
	b := start(t, mem, withLogins, "audit.log=refusals", "audit.file="+file)
	for user, password := range map[string]string{"admin": "canary", "other": "third"} {
		if err := tryLogin(t, b, scram512(user, password)); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	for _, file := range []string{"new-users", "new-users.taken"} {
		if _, err := mem.Stat("/data/" + file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", file, err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"ev":"change"`, fmt.Sprintf(`"who":"uid=%d"`, os.Getuid()), `"client":"chronikd user add"`,
		`"op":"CREATE"`, `"res":"User:admin"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(string(text), "canary") {
		t.Error("the password is recorded")
	}
}
