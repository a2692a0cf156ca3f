package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/secureinit"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A broker whose certificate has expired starts: it serves its other listeners and reports the
// certificate, and takes the renewed one without another start.
func TestABrokerStartsWithAnExpiredCertificate(t *testing.T) {
	expired, renewed := filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "new")
	old, err := secureinit.New(expired, nil, nil)
	if err == nil {
		err = old.Write(time.Now().AddDate(-2, 0, 0))
	}
	must.OK(t, err)
	secured(t, renewed)
	file := fmt.Sprintf("listeners:\n- {name: plain, listen: '127.0.0.1:0'}\n- {name: private, listen: '127.0.0.1:0', security: tls}\n"+
		"tls.certificate: %s/server.pem\ntls.key: %s/server-key.pem\n", expired, expired)
	cfg, err := resolve.Load(config.Input{File: "f", ReadFile: func(string) ([]byte, error) { return []byte(file), nil },
		Flags: map[string]string{config.KeyDataDir: "/data", config.KeyAdminListen: "off"}})
	must.OK(t, err)
	now := make(chan struct{})
	b, err := Start(t.Context(), Options{Config: cfg, FS: vfs.Memory(), Log: zap.NewNop(), Level: zap.NewAtomicLevel(), Version: "test",
		Reload: now, JournalFileSize: 1 << 20, JournalBytes: 16 << 20})
	if err != nil {
		t.Fatalf("the broker did not start: %v", err)
	}
	defer func() { _ = b.Close() }()
	fill(t, b, "t", 1, 3) // over the first listener

	roots := x509.NewCertPool()
	for _, dir := range []string{expired, renewed} {
		roots.AppendCertsFromPEM([]byte(content(t, dir, "ca.pem")))
	}
	dial := func() error {
		c, err := tls.Dial("tcp", b.Addrs()[1], &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13})
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	if err := dial(); !errors.As(err, new(x509.CertificateInvalidError)) {
		t.Errorf("a client gets %v", err)
	}
	reported := func() bool {
		return strings.Contains(b.health.Report(t.Context()).Text(), "bad: certificate of private: the server certificate expired")
	}
	if !reported() {
		t.Errorf("the report does not name the certificate:\n%s", b.health.Report(t.Context()).Text())
	}
	for _, name := range []string{"server-key.pem", "server.pem"} {
		must.OK(t, os.WriteFile(filepath.Join(expired, name), []byte(content(t, renewed, name)), 0o600))
	}
	now <- struct{}{}
	eventually(t, "clients can connect", func() bool { return dial() == nil })
	eventually(t, "the finding ends", func() bool { return !reported() })
}

// A broker of a cluster also starts. What others would refuse apart from the dates still ends
// the start.
func TestABrokerOfAClusterStartsWithAnExpiredCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	made, err := secureinit.New(dir, nil, []string{"localhost:1000", "localhost:2000", "localhost:3000"})
	if err == nil {
		err = made.Write(time.Now().AddDate(-2, 0, 0))
	}
	must.OK(t, err)
	peers := func(authority string) error {
		file := fmt.Sprintf("listeners: [{name: peers, listen: '127.0.0.1:0', security: tls}]\n"+
			"tls: {certificate: %[1]s/server.pem, key: %[1]s/server-key.pem, client-ca: %[2]s}\n", filepath.Join(dir, "node-1"), authority)
		cfg, err := resolve.Load(config.Input{File: "f", ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
		must.OK(t, err)
		c, err := guard.OpenCertificates(cfg, zap.NewNop())
		must.OK(t, err)
		_, err = guard.NewPeers("peers", "", c, nil)
		return err
	}
	if err := peers(filepath.Join(dir, "node-1", "ca.pem")); err != nil {
		t.Error(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	secured(t, other)
	if err := peers(filepath.Join(other, "ca.pem")); err == nil || !strings.Contains(err.Error(), "other brokers would not accept") {
		t.Errorf("with another authority: %v", err)
	}
}
