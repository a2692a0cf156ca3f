package connections

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xdg-go/scram"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/pkg/chronik"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a broker with TLS and the files that its clients need.
type world struct{ ca, password, address string }

func newWorld(t *testing.T, settings map[string]string) world {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must.OK(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must.OK(t, err)
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		name = filepath.Join(dir, name)
		must.OK(t, os.WriteFile(name, text, 0o600))
		return name
	}
	w := world{ca: file("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		password: file("password", []byte("a,b=c\n"))}
	all := map[string]string{"security": "tls", "tls.certificate": w.ca, "audit.log": "off",
		"tls.key":         file("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
		"bootstrap.users": file("users", []byte("bench:SCRAM-SHA-512:a,b=c\n"))}
	for k, v := range settings {
		all[k] = v
	}
	w.address = chronik.StartTest(t, chronik.Options{Settings: all}).Addr()
	return w
}

func (w world) run(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := Command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append(args, "--bootstrap-servers", w.address, "--tls-ca", w.ca))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.Execute()
	return out.String(), err
}

// Clients log in over TLS, and the figures are there.
func TestLogins(t *testing.T) {
	w := newWorld(t, map[string]string{"sasl": "SCRAM-SHA-512"})
	login := []string{"logins", "--user", "bench", "--password-file", w.password, "-c", "2", "--warmup", "0s",
		"--server-pid", strconv.Itoa(os.Getpid())}
	var r LoginsResult
	for d := 50 * time.Millisecond; r.Logins == 0 && d < 10*time.Second; d *= 4 { // longer on a busy machine
		out, err := w.run(append(login, "-d", d.String(), "--json")...)
		if err != nil && !errors.Is(err, bench.ErrNothing) {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
	}
	if r.Logins == 0 || len(r.Failures) > 0 || r.Latency.P50 <= 0 || !strings.HasPrefix(r.TLS, "TLS 1.3") {
		t.Errorf("the result is %+v", r)
	}
	var table bytes.Buffer
	if err := r.Table(&table); err != nil || !strings.Contains(table.String(), "TLS_AES_128_GCM_SHA256, SCRAM-SHA-512") {
		t.Errorf("%v: the table is %q", err, table.String())
	}
	must.OK(t, os.WriteFile(w.password, []byte("wrong"), 0o600))
	if out, err := w.run(append(login, "-d", "1h")...); err == nil || !strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") {
		t.Errorf("a wrong password: %v\n%s", err, out)
	}
}

// A server that does not know the user's key is refused.
func TestServerMustProveItself(t *testing.T) {
	user, err := scram.SHA512.NewClientUnprepped("a,b=c", "secret", "")
	must.OK(t, err)
	known, err := user.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt", Iters: 4096})
	must.OK(t, err)
	impostor := known
	impostor.ServerKey = bytes.Repeat([]byte{1}, len(known.ServerKey))
	for _, x := range []struct {
		keys scram.StoredCredentials
		ok   bool
	}{{known, true}, {impostor, false}} {
		server, err := scram.SHA512.NewServer(func(string) (scram.StoredCredentials, error) { return x.keys, nil })
		must.OK(t, err)
		err = prove(user, server.NewConversation().Step)
		if (err == nil) != x.ok || !x.ok && !strings.Contains(err.Error(), "does not prove") {
			t.Errorf("a server that knows the user (%v): %v", x.ok, err)
		}
	}
}

// Mistakes are found before anything is sent.
func TestUsage(t *testing.T) {
	w := world{ca: "/nowhere/ca.pem", address: "127.0.0.1:1"}
	for line, want := range map[string]string{
		"logins":                         "--tls-ca",
		"logins -d 0s":                   "--duration",
		"logins --warmup -1s":            "--warmup",
		"logins -c 0":                    "--connections",
		"logins --user x":                "--password-file",
		"idle":                           "--server-pid",
		"idle --server-pid 1 --rest -1s": "--rest",
	} {
		_, err := w.run(strings.Fields(line)...)
		if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// A run of the root command uses TLS for all its connections, those of kgo and its own.
func TestRunOverTLS(t *testing.T) {
	w := newWorld(t, nil)
	c := bench.Default()
	c.Brokers, c.Authorities, c.Admin, c.Concurrency, c.Warmup, c.CreateTopic, c.Verify = []string{w.address}, w.ca, "off", 2, 0, true, true
	for _, c.Clients = range []bench.Clients{bench.ClientsOwn, bench.ClientsBatched} {
		c.Mode, c.Verify, c.Topic = bench.ModeProduce, true, string(c.Clients)
		runs(t, c)
		c.Mode, c.Verify = bench.ModeConsume, false
		runs(t, c)
	}
}

func runs(t *testing.T, c bench.Config) {
	t.Helper()
	for c.Duration = 50 * time.Millisecond; ; c.Duration *= 4 { // longer on a busy machine
		r, err := bench.Run(t.Context(), c, nil)
		must.OK(t, err)
		if !r.Succeeded() && c.Duration < 10*time.Second {
			continue
		}
		if !r.Succeeded() || r.Against.TLS != "TLS 1.3 TLS_AES_128_GCM_SHA256" || r.Verify != nil && r.Verify.Bad() {
			t.Errorf("%s of clients %s over %q: succeeded %v, verification %+v", c.Mode, c.Clients, r.Against.TLS, r.Succeeded(), r.Verify)
		}
		return
	}
}
