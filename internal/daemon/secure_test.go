package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/secureinit"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

func content(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	must.OK(t, err)
	return string(b)
}

// secured writes what `secure init` does.
func secured(t *testing.T, dir string, nodes ...string) {
	t.Helper()
	made, err := secureinit.New(dir, nil, nodes)
	if err == nil {
		err = made.Write(time.Now())
	}
	must.OK(t, err)
}

// A broker without seeds shows its certificate to clients only: it needs nothing that other brokers
// would ask of it.
func TestALoneBrokerNeedsNoCertificateOfABroker(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	about := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, &about, &about, key.Public(), key)
	secret, err2 := x509.MarshalPKCS8PrivateKey(key)
	must.OK(t, errors.Join(err, err2))
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	startHere(t, vfs.Memory(), "security=tls", "tls.certificate="+filepath.Join(dir, "cert.pem"), "tls.key="+filepath.Join(dir, "key.pem"))
}

// When the authority of clients is removed from the file, connections that show its certificates
// end; the certificate alone would keep them for a year.
func TestARemovedAuthorityEndsConnections(t *testing.T) {
	dir, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	for _, d := range []string{dir, other} {
		secured(t, d)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	cfg, err := resolve.Load(config.Input{
		Set: []string{"security=tls", "client.certificates=require", "tls.certificate=" + in("server.pem"),
			"tls.key=" + in("server-key.pem"), "tls.client-ca=" + in("ca.pem")},
		Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "off"},
	})
	must.OK(t, err)
	now := make(chan struct{})
	b, err := Start(t.Context(), Options{Config: cfg, FS: vfs.Memory(), Log: zap.NewNop(), Level: zap.NewAtomicLevel(), Version: "test",
		Reload: now, JournalFileSize: 1 << 20, JournalBytes: 16 << 20})
	must.OK(t, err)
	defer func() { _ = b.Close() }()
	pair, err := tls.LoadX509KeyPair(in("server.pem"), in("server-key.pem"))
	ca, err2 := os.ReadFile(in("ca.pem"))
	removed, err3 := os.ReadFile(filepath.Join(other, "ca.pem"))
	must.OK(t, errors.Join(err, err2, err3))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	c, err := tls.Dial("tcp", b.Addrs()[0], &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair},
		MinVersion: tls.VersionTLS13})
	must.OK(t, err)
	defer func() { _ = c.Close() }()
	versions := []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255} // ApiVersions version 0
	head := make([]byte, 4)
	if _, err := c.Write(versions); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, head); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head))); err != nil {
		t.Fatal(err)
	}
	must.OK(t, os.WriteFile(in("ca.pem"), removed, 0o600))
	now <- struct{}{}
	if n, err := c.Read(head); !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
