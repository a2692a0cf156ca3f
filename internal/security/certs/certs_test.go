package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/testing/must"
)

var now = time.Now()

func put(t *testing.T, path string, text []byte) string {
	t.Helper()
	must.OK(t, os.WriteFile(path, text, 0o600))
	return path
}

func authority(t *testing.T, names ...string) *Authority {
	t.Helper()
	a, err := NewAuthority("test CA", append(names, "localhost", "127.0.0.1"), now)
	must.OK(t, err)
	return a
}

// leafOf writes a leaf of a, and returns its Config.
func leafOf(t *testing.T, dir string, a *Authority, names ...string) Config {
	t.Helper()
	p, err := a.Leaf("broker", append(names, "localhost"), now)
	must.OK(t, err)
	return Config{Certificate: put(t, filepath.Join(dir, "s.pem"), p.Certificate), Key: put(t, filepath.Join(dir, "k.pem"), p.Key)}
}

// handshake connects a client that trusts roots to a server with the store's present certificate.
func handshake(s *Store, roots []byte, serverName string, client ...tls.Certificate) (*tls.ConnectionState, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	server := tls.Server(b, s.Config())
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	c := tls.Client(a, &tls.Config{RootCAs: pool, ServerName: serverName, Certificates: client, MinVersion: tls.VersionTLS12})
	if err := c.Handshake(); err != nil {
		_ = a.Close()
		<-done
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, c) }() // the server's refusal of the client comes after the client's handshake (TLS 1.3)
	if err := <-done; err != nil {
		return nil, err
	}
	state := server.ConnectionState()
	return &state, nil
}

func TestAnAuthoritySignsItsNamesOnly(t *testing.T) {
	a := authority(t, "b1.example.com", "10.1.2.3", "::1")
	if _, err := a.Leaf("broker", []string{"b1.example.com", "10.1.2.3", "::1", "localhost", "127.0.0.1"}, now); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"other.example.com", "10.1.2.4", "example.com"} {
		if _, err := a.Leaf("broker", []string{name}, now); err == nil {
			t.Errorf("it signed %s", name)
		}
	}
	again, err := LoadAuthority(a.CertificatePEM, a.KeyPEM)
	must.OK(t, err)
	if got := strings.Join(again.Names(), " "); got != "b1.example.com localhost 10.1.2.3 ::1 127.0.0.1" {
		t.Errorf("names: %s", got)
	}
	c, err := Parse(a.CertificatePEM)
	must.OK(t, err)
	if !c[0].MaxPathLenZero || !c[0].PermittedDNSDomainsCritical || c[0].NotAfter.Sub(now) < 3600*24*time.Hour {
		t.Errorf("%+v", c[0])
	}
}

// An authority that is widened signs the further names and no others. What it has signed before and
// after is accepted by who has its new certificate; who has the former one refuses the new names.
func TestAnAuthorityIsWidened(t *testing.T) {
	a := authority(t, "a.example.com", "10.0.0.11")
	for _, known := range [][]string{nil, {"a.example.com", "10.0.0.11"}, {"A.example.com", "below.a.example.com"}} {
		if same, err := a.Widen(known, now); err != nil || same != a {
			t.Errorf("%v: %v, and another certificate", known, err)
		}
	}
	wide, err := a.Widen([]string{"b.example.com", "localhost", "10.0.0.14", "b.example.com"}, now.AddDate(1, 0, 0))
	must.OK(t, err)
	if got, want := wide.Names(), append(a.Names(), "10.0.0.14", "b.example.com"); !slices.Equal(slices.Sorted(slices.Values(got)),
		slices.Sorted(slices.Values(want))) {
		t.Errorf("permits %v, want %v", got, want)
	}
	was, is := a.certificate, wide.certificate
	if !bytes.Equal(was.RawSubject, is.RawSubject) || !bytes.Equal(was.SubjectKeyId, is.SubjectKeyId) || !was.NotAfter.Equal(is.NotAfter) ||
		!was.NotBefore.Equal(is.NotBefore) || was.SerialNumber.Cmp(is.SerialNumber) == 0 || !is.PermittedDNSDomainsCritical ||
		!bytes.Equal(a.KeyPEM, wide.KeyPEM) {
		t.Errorf("%+v was replaced by %+v", was, is)
	}
	old, err := a.Leaf("broker", []string{"a.example.com", "10.0.0.11"}, now)
	must.OK(t, err)
	fresh, err := wide.Leaf("broker", []string{"b.example.com", "10.0.0.14"}, now)
	must.OK(t, err)
	for _, c := range []struct {
		by   *Authority
		pair Pair
		name string
		ok   bool
	}{{wide, old, "a.example.com", true}, {wide, old, "10.0.0.11", true},
		{wide, fresh, "b.example.com", true}, {wide, fresh, "10.0.0.14", true},
		{a, fresh, "b.example.com", false}, {a, fresh, "10.0.0.14", false}} {
		if err := c.by.verify(c.pair.Certificate, []string{c.name}, now); (err == nil) != c.ok {
			t.Errorf("%s: %v, want accepted %t", c.name, err, c.ok)
		}
	}
	for _, other := range []string{"c.example.com", "example.com", "10.0.0.15"} {
		if _, err := wide.Leaf("broker", []string{other}, now); err == nil {
			t.Errorf("it has signed %s", other)
		}
	}
}

// A changed pair is used by the next handshake; one that does not fit is not, with one line in the
// log, and the store recovers when the rest of it arrives.
func TestReload(t *testing.T) {
	dir, a := t.TempDir(), authority(t)
	c := leafOf(t, dir, a)
	core, lines := observer.New(zap.InfoLevel)
	s, err := Open("clients", c, time.Now, zap.New(core))
	must.OK(t, err)
	serial := func() string {
		t.Helper()
		state, err := handshake(s, a.CertificatePEM, "localhost")
		must.OK(t, err)
		_ = state
		return s.Certificate().SerialNumber.String()
	}
	before := serial()
	s.Reload(false)
	if lines.Len() != 0 || serial() != before {
		t.Errorf("without a change: %v", lines.All())
	}
	next, err := a.Leaf("broker", []string{"localhost"}, now)
	must.OK(t, err)
	put(t, c.Certificate, next.Certificate) // the key comes later
	for range 3 {
		s.Reload(false)
	}
	if serial() != before || lines.Len() != 1 || !strings.Contains(lines.All()[0].Message, "were not taken") {
		t.Errorf("half of a pair: %v", lines.All())
	}
	if p := s.Status().Problem; !strings.Contains(p, "k.pem: does not fit") {
		t.Errorf("problem: %s", p)
	}
	put(t, c.Key, next.Key)
	taken(s)
	if serial() == before || lines.Len() != 2 || s.Status().Problem != "" {
		t.Errorf("both: %v", lines.All())
	}
	must.OK(t, os.Remove(c.Key))
	taken(s)
	if s.Status().Problem == "" || serial() == before {
		t.Error("a missing key is not noticed")
	}
	put(t, c.Key, next.Key)
	must.OK(t, os.Chmod(c.Key, 0o644))
	taken(s)
	if problem := s.Status().Problem; !strings.Contains(problem, "chmod 600") {
		t.Errorf("problem of a key that others can read: %s", problem)
	}
	if err := os.Chmod(c.Key, 0o600); err != nil { // size and time stay
		t.Fatal(err)
	}
	if s.Reload(false); s.Status().Problem != "" {
		t.Errorf("problem after the chmod: %s", s.Status().Problem)
	}
}

// taken calls Reload until a change of the files is taken.
func taken(s *Store) (changed bool) { return !s.Reload(false) && s.Reload(false) }

func TestClientCertificates(t *testing.T) {
	dir, a, other := t.TempDir(), authority(t), authority(t)
	c := leafOf(t, dir, a)
	c.ClientCA, c.ClientAuth = put(t, filepath.Join(dir, "ca.pem"), a.CertificatePEM), tls.RequireAndVerifyClientCert
	s, err := Open("peers", c, time.Now, zap.NewNop())
	must.OK(t, err)
	client := func(a *Authority) tls.Certificate {
		p, err := a.Leaf("bob", nil, now)
		must.OK(t, err)
		pair, err := tls.X509KeyPair(p.Certificate, p.Key)
		must.OK(t, err)
		return pair
	}
	state, err := handshake(s, a.CertificatePEM, "localhost", client(a))
	if err != nil || DN(state.PeerCertificates[0]) != "CN=bob" {
		t.Errorf("%v %v", state, err)
	}
	if _, err := handshake(s, a.CertificatePEM, "localhost", client(other)); err == nil {
		t.Error("a certificate of another authority was accepted")
	}
	if _, ok := s.Status().Expires[KindClientCA]; !ok || s.Status().Stranger {
		t.Errorf("status %+v", s.Status())
	}
	if !s.Trusts(state.PeerCertificates) || s.Reload(true) {
		t.Error("without a change of the authorities a certificate is not trusted any more")
	}
	// A client authority that is taken away is not trusted any more.
	put(t, c.ClientCA, other.CertificatePEM)
	if !taken(s) || s.Trusts(state.PeerCertificates) {
		t.Error("the certificate of a connection is still trusted")
	}
	if !s.Status().Stranger {
		t.Error("the authority of the listener's own certificate is gone too, and its status does not show it")
	}
	if _, err := handshake(s, a.CertificatePEM, "localhost", client(a)); err == nil {
		t.Error("the former authority is still trusted")
	}
}

// A client that comes back resumes no session, which would have been made with former certificates
// and authorities: the broker verifies its certificate again.
func TestNoSessionIsResumed(t *testing.T) {
	dir, a := t.TempDir(), authority(t)
	c := leafOf(t, dir, a)
	c.ClientCA, c.ClientAuth = put(t, filepath.Join(dir, "ca.pem"), a.CertificatePEM), tls.RequireAndVerifyClientCert
	s, err := Open("clients", c, time.Now, zap.NewNop())
	must.OK(t, err)
	leaf, err := a.Leaf("bob", nil, now)
	must.OK(t, err)
	pair, err := tls.X509KeyPair(leaf.Certificate, leaf.Key)
	must.OK(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.CertificatePEM)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{pair}, MinVersion: version,
			MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		for range 2 {
			here, there := sockets(t)
			server, client := tls.Server(there, s.Config()), tls.Client(here, config)
			served := make(chan error, 1)
			go func() {
				_, err := server.Write([]byte("x"))
				served <- err
			}()
			_, err := io.ReadFull(client, make([]byte, 1)) // tickets come before the data
			must.OK(t, errors.Join(err, <-served))
			if got := server.ConnectionState(); got.DidResume || client.ConnectionState().DidResume || len(got.VerifiedChains) == 0 {
				t.Errorf("%s: a session was resumed", tls.VersionName(version))
			}
		}
	}
}

// sockets returns the ends of a connection.
func sockets(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	if here, err = net.Dial("tcp", l.Addr().String()); err == nil {
		there, err = l.Accept()
	}
	must.OK(t, err)
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}

// A file of authorities that is only half written, wherever it is cut, is not taken for one with
// fewer authorities. One that is cut between two certificates is not taken while it grows.
func TestAFileThatIsCut(t *testing.T) {
	dir := t.TempDir()
	a, b, other := authority(t), authority(t), authority(t)
	c := leafOf(t, dir, a)
	all := slices.Concat(a.CertificatePEM, b.CertificatePEM, other.CertificatePEM)
	c.ClientCA, c.ClientAuth = put(t, filepath.Join(dir, "ca.pem"), all), tls.RequireAndVerifyClientCert
	core, lines := observer.New(zap.InfoLevel)
	s, err := Open("peers", c, time.Now, zap.New(core))
	must.OK(t, err)
	shown, err := Parse(all)
	must.OK(t, err)
	complete := func() bool { return len(s.current.Load().clientCA) == len(shown) }
	ends := []int{len(a.CertificatePEM), len(a.CertificatePEM) + len(b.CertificatePEM), len(all)}
	for cut := range all {
		if cut%16 == 0 {
			put(t, c.ClientCA, all[:cut])
			if s.Reload(false); s.Status().Problem != "" || !complete() {
				t.Fatalf("%d of %d bytes are taken at once: %s", cut, len(all), s.Status().Problem)
			}
		}
		certificates, err := Parse(all[:cut])
		if between := slices.Contains(ends, cut) || slices.Contains(ends, cut+1); (err == nil) != between {
			t.Errorf("%d of %d bytes: %d certificates, %v", cut, len(all), len(certificates), err)
		}
	}
	if lines.Len() != 0 {
		t.Errorf("while the file is written: %v", lines.All())
	}
	put(t, c.ClientCA, all[:len(all)-30])
	for range 3 {
		s.Reload(false)
	}
	if s.Status().Problem == "" || !complete() || lines.Len() != 1 {
		t.Errorf("a file that stays cut: %q, %d lines", s.Status().Problem, lines.Len())
	}
	damaged := bytes.Clone(all)
	damaged[40] = '!'
	put(t, c.ClientCA, damaged)
	if s.Reload(true); s.Status().Problem == "" || !complete() {
		t.Error("a damaged certificate is left out")
	}
	put(t, c.ClientCA, all[:ends[1]]) // an authority is removed
	if !taken(s) || s.Status().Problem != "" || complete() {
		t.Errorf("a smaller file is not taken: %s", s.Status().Problem)
	}
}

// The way in which Kubernetes replaces mounted files: a symbolic link to the directory is renamed,
// and all files change at once. Sizes and times may be the same.
func TestASwitchedLink(t *testing.T) {
	dir, a := t.TempDir(), authority(t)
	stamp := time.Now().Add(-time.Minute)
	generation := func(name string) {
		t.Helper()
		next, err := a.Leaf("broker", []string{"localhost"}, now)
		if err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), 0o700)); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string][]byte{"c.pem": next.Certificate, "k.pem": next.Key} {
			path := put(t, filepath.Join(dir, name, file), append(text, bytes.Repeat([]byte{10}, 2000-len(text))...)) // all of one size
			must.OK(t, os.Chtimes(path, stamp, stamp))
		}
		link := filepath.Join(dir, "..tmp")
		must.OK(t, errors.Join(os.Symlink(name, link), os.Rename(link, filepath.Join(dir, "..data"))))
	}
	generation("..1")
	c := Config{Certificate: filepath.Join(dir, "c.pem"), Key: filepath.Join(dir, "k.pem")}
	must.OK(t, errors.Join(os.Symlink("..data/c.pem", c.Certificate), os.Symlink("..data/k.pem", c.Key)))
	s, err := Open("clients", c, time.Now, zap.NewNop())
	must.OK(t, err)
	before := s.Certificate()
	generation("..2")
	if !taken(s) || s.Certificate().Equal(before) || s.Status().Problem != "" {
		t.Errorf("the former certificate stays: %s", s.Status().Problem)
	}
}

// made returns a self-signed certificate and its key, changed by change.
func made(t *testing.T, key any, change func(*x509.Certificate)) (certificate, private []byte) {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	if change != nil {
		change(c)
	}
	var public any
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		public = &k.PublicKey
	case *rsa.PrivateKey:
		public = &k.PublicKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, key)
	must.OK(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(key)
	must.OK(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

func TestUnusableFilesAreRefusedWithTheCause(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	good, goodKey := made(t, key, nil)
	_, otherKey := made(t, mustKey(t), nil)
	with := func(change func(*x509.Certificate)) []byte { c, _ := made(t, key, change); return c }
	for _, c := range []struct {
		name             string
		certificate, key []byte
		want             string
	}{
		{"no PEM", []byte("x"), goodKey, "contains no certificate"},
		{"another key", good, otherKey, "does not fit"},
		{"no key", good, good, "does not fit"},
		{"encrypted", good, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"), "openssl pkey -in KEY"},
		{"for clients", with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), goodKey,
			"serverAuth"},
		{"order", append(bytes.Clone(good), with(func(c *x509.Certificate) { c.SerialNumber = big.NewInt(2) })...), goodKey,
			"has not signed the one before it"},
		{"too many", bytes.Repeat(good, maxChain+1), goodKey, "at most 5 are sent"},
	} {
		dir := t.TempDir()
		_, err := Open("x", Config{Certificate: put(t, filepath.Join(dir, "s.pem"), c.certificate),
			Key: put(t, filepath.Join(dir, "k.pem"), c.key)}, time.Now, zap.NewNop())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	dir := t.TempDir()
	paths := Config{Certificate: put(t, filepath.Join(dir, "s.pem"), good), Key: put(t, filepath.Join(dir, "k.pem"), goodKey),
		ClientCA: put(t, filepath.Join(dir, "ca.pem"), good)}
	if _, err := Open("x", paths, time.Now, zap.NewNop()); err == nil ||
		!strings.Contains(err.Error(), "not the certificate of an authority") {
		t.Errorf("client CA: %v", err)
	}
	paths.ClientCA = ""
	if _, err := Open("x", paths, time.Now, zap.NewNop()); err != nil {
		t.Error(err)
	}
}

// A certificate that is not valid now is reported and used, and its successor is taken. It replaces
// no valid one.
func TestAnUntimelyCertificateIsUsedUntilItsSuccessor(t *testing.T) {
	key := mustKey(t)
	good, goodKey := made(t, key, nil)
	for want, change := range map[string]func(*x509.Certificate){
		"expired on": func(c *x509.Certificate) {
			c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(2), now.Add(-time.Hour), now.Add(-time.Minute)
		},
		"check the clock": func(c *x509.Certificate) { c.SerialNumber, c.NotBefore = big.NewInt(2), now.Add(time.Minute) },
	} {
		dir := t.TempDir()
		untimely, _ := made(t, key, change)
		c := Config{Certificate: put(t, filepath.Join(dir, "s.pem"), untimely), Key: put(t, filepath.Join(dir, "k.pem"), goodKey)}
		s, err := Open("x", c, func() time.Time { return now }, zap.NewNop())
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if err := s.Untimely(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), c.Certificate) {
			t.Errorf("the store says %v, want %s", err, want)
		}
		put(t, c.Certificate, good)
		if !s.Reload(true) || s.Untimely() != nil || s.Status().Problem != "" {
			t.Errorf("%s: the successor was not taken: %+v", want, s.Status())
		}
		put(t, c.Certificate, untimely)
		if s.Reload(true) || s.Untimely() != nil || !strings.Contains(s.Status().Problem, want) {
			t.Errorf("%s: it replaced a valid one: %+v", want, s.Status())
		}
	}
}

func mustKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	return key
}

func TestWarnings(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	certificate, private := made(t, key, nil)
	dir := t.TempDir()
	s, err := Open("x", Config{Certificate: put(t, filepath.Join(dir, "s.pem"), certificate),
		Key: put(t, filepath.Join(dir, "k.pem"), private), Names: []string{"localhost", "b1.example.com", "10.0.0.1"}},
		time.Now, zap.NewNop())
	must.OK(t, err)
	w := s.Status().Warnings
	if len(w) != 2 || !strings.Contains(w[0], "does not cover b1.example.com, 10.0.0.1,") || !strings.Contains(w[1], "RSA") {
		t.Errorf("%q", w)
	}
}
