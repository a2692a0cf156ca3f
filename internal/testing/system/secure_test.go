package system

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

// noPassword fails if a file below the directory of secure init has the administrator's password.
func noPassword(t *testing.T, dir string) {
	t.Helper()
	contexts, err := os.ReadFile(os.Getenv("CHRONIKCTL_CONFIG"))
	must.OK(t, err)
	_, password, _ := strings.Cut(string(contexts), "sasl-password:")
	password = strings.Trim(strings.TrimSpace(strings.SplitN(password, "\n", 2)[0]), `"`)
	if len(password) < 32 {
		t.Fatalf("the password has %d characters", len(password))
	}
	must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(password)) {
			t.Errorf("%s has the password", path)
		}
		return err
	}))
}

// What secure init makes starts: chronikctl works with its context at once, and not without the
// password, which no file near the data has. A client that trusts ca.pem can check the broker.
// SIGHUP makes it serve a renewed certificate without a restart, and read its configuration again.
func TestASecuredBrokerServesAndRenews(t *testing.T) {
	at, err := ports.Loopback()
	must.OK(t, err)
	_, port, err := net.SplitHostPort(at)
	must.OK(t, err)
	dir := filepath.Join(t.TempDir(), "secured")
	t.Setenv("CHRONIKCTL_CONFIG", filepath.Join(t.TempDir(), "contexts.yaml"))
	secure := func(args ...string) {
		t.Helper()
		name := os.Getenv("CHRONIKD")
		if name == "" {
			name = "chronikd"
		}
		if out, err := exec.Command(name, append([]string{"secure", "init", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	secure("--advertise", "localhost:"+port)
	p, err := start(t.TempDir(), nil, "--config", filepath.Join(dir, "chronikd.yaml"), "--admin-listen", "off")
	must.OK(t, err)
	defer func() { _ = p.end(syscall.SIGKILL) }()
	list := func(args ...string) (string, error) {
		out, err := exec.Command("chronikctl", append(args, "--admin", "off", "topic", "list", "--names")...).CombinedOutput()
		return string(out), err
	}
	create := exec.Command("chronikctl", "--context", "secured", "--admin", "off", "topic", "create", "orders")
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, p.logged())
	}
	if out, err := list("--context", "secured"); err != nil || out != "orders\n" {
		t.Errorf("%v: %s\n%s", err, out, p.logged())
	}
	if out, err := list("--brokers", "localhost:"+port, "--tls-ca", filepath.Join(dir, "ca.pem"), "--timeout", "5s"); err == nil {
		t.Errorf("without a password: %s", out)
	}
	noPassword(t, dir)
	authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	must.OK(t, err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	dial := func() *tls.Conn {
		t.Helper()
		c, err := tls.Dial("tcp", "localhost:"+port, &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatalf("%v\n%s", err, p.logged())
		}
		return c
	}
	serial := func(c *tls.Conn) string { return c.ConnectionState().PeerCertificates[0].SerialNumber.String() }
	first := dial()
	defer first.Close()
	before := serial(first)
	secure("--renew")
	file := filepath.Join(dir, "chronikd.yaml")
	settings, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(settings, "num.partitions: 7\n"...), 0o600)
	}
	must.OK(t, err)
	must.OK(t, p.cmd.Process.Signal(syscall.SIGHUP))
	const restart = `effective after a restart","settings":["num.partitions"]`
	read := func() bool { // under nohup, SIGHUP stays ignored, and only the certificate is found
		return signal.Ignored(syscall.SIGHUP) || strings.Contains(p.logged(), restart)
	}
	end := time.Now().Add(startTime)
	for after := before; after == before || !read(); { // the signal is handled when it is
		c := dial()
		after = serial(c)
		_ = c.Close()
		if time.Now().After(end) {
			t.Fatalf("the renewed certificate is not served, or the changed configuration not read:\n%s", p.logged())
		}
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, p.logged())
	}
}
