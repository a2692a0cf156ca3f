package chronikd

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/secureinit"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// execute runs one command line.
func execute(t *testing.T, environ []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(context.Background(), Process{Args: args, Environ: environ, Out: &o, Err: &e, Version: "v0", Exit: func(int) {}})
	return code, o.String(), e.String()
}

func content(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	must.OK(t, err)
	return string(b)
}

// One command writes everything that a broker with TLS and logins needs, and nothing that others
// may read but what is public.
func TestSecureInit(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "made"), filepath.Join(t.TempDir(), "contexts.yaml")
	env := []string{contexts.EnvFile + "=" + file}
	code, out, errs := execute(t, env, "secure", "init", dir, "--advertise", "b1.example.com:9093", "--advertise", "10.1.2.3:19093")
	if code != exit.OK {
		t.Fatalf("%d %s", code, errs)
	}
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	public := []string{"ca.pem", "server.pem", "chronikd.yaml"}
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		must.OK(t, err)
		if mode := info.Mode().Perm(); mode&0o077 != 0 && !slices.Contains(public, e.Name()) {
			t.Errorf("%s has mode %04o", e.Name(), mode)
		}
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got !=
		"admin.token ca-key.pem ca.pem chronikd.yaml cluster.secret server-key.pem server.pem users" {
		t.Errorf("files: %s", got)
	}
	s, err := contexts.Resolve(contexts.Input{Context: secureinit.Context, Getenv: func(name string) string {
		if name == contexts.EnvFile {
			return file
		}
		return ""
	}})
	must.OK(t, err)
	read, err := s.Password()
	must.OK(t, err)
	password := string(read.Bytes())
	for _, name := range names { // who has a copy of the directory cannot log in with it
		if strings.Contains(content(t, dir, name), password) {
			t.Errorf("%s has the password", name)
		}
	}
	if len(password) < 32 || strings.Contains(out+errs, password) {
		t.Errorf("password of %d characters, or it was printed", len(password))
	}
	users := content(t, dir, "users")
	if !strings.HasPrefix(users, "admin:SCRAM-SHA-512:[iterations=") {
		t.Errorf("users: %s", users)
	}
	for _, want := range []string{"security.protocol=SASL_SSL\n", "sasl.mechanism=SCRAM-SHA-512\n", "ssl.truststore.type=PEM\n",
		"ssl.truststore.location=" + filepath.Join(dir, "ca.pem") + "\n", `password="` + password + `";`,
		"bootstrap.servers=b1.example.com:9093\n"} {
		if !strings.Contains(content(t, filepath.Dir(file), "secured.properties"), want) {
			t.Errorf("the file for Kafka's tools has no %s", want)
		}
	}
	for _, own := range []string{file, filepath.Join(filepath.Dir(file), "secured.properties")} {
		if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", own, info.Mode(), err)
		}
	}
	cfg, err := resolve.Load(config.Input{File: filepath.Join(dir, "chronikd.yaml"), ReadFile: os.ReadFile})
	must.OK(t, err)
	if len(cfg.Listeners) != 2 || cfg.Listeners[1].Listen != ":19093" || cfg.Listeners[1].TLS == nil || len(cfg.Listeners[1].SASL) == 0 ||
		!cfg.Security.ACL || !slices.Equal(cfg.Security.SuperUsers, []string{"User:admin"}) {
		t.Errorf("%+v %+v", cfg.Listeners, cfg.Security)
	}
	c, err := guard.OpenCertificates(cfg, zap.NewNop())
	must.OK(t, err)
	var f checks.Facts
	c.Facts(&f)
	for _, x := range f.CertificateFiles {
		if x.Problem != "" || len(x.Warnings) > 0 {
			t.Errorf("%+v", x)
		}
	}
	if s.Get(contexts.Brokers) != "b1.example.com:9093" || !s.Encrypted() {
		t.Errorf("context: %s", s.Get(contexts.Brokers))
	}
}

// A broker whose addresses only this machine can reach listens only there. One that others reach
// listens on all interfaces, also for a loopback address: that is a published port of a container.
func TestSecureInitListensWhereItIsReached(t *testing.T) {
	for _, c := range []struct {
		args []string
		file string
		want []string
	}{
		{[]string{"--advertise", "localhost:9093"}, "chronikd.yaml", []string{"localhost:9093"}},
		{[]string{"--advertise", "LOCALHOST:9093", "--advertise", "[::1]:9094"}, "chronikd.yaml", []string{"localhost:9093", "[::1]:9094"}},
		{[]string{"--advertise", "127.0.0.1:9092", "--advertise", "chronik:19092"}, "chronikd.yaml", []string{":9092", ":19092"}},
		{[]string{"--advertise", "b1.example.com:9093"}, "chronikd.yaml", []string{":9093"}},
		{[]string{"--nodes", "localhost:9093,localhost:9096,localhost:9099"}, "node-2/chronikd.yaml",
			[]string{"localhost:9096", "localhost:9098"}},
		{[]string{"--nodes", "127.0.0.1:9093,127.0.0.2:9093,127.0.0.3:9093"}, "node-2/chronikd.yaml",
			[]string{"127.0.0.2:9093", "127.0.0.2:9095"}},
		{[]string{"--nodes", "127.0.0.1:9093"}, "node-1/chronikd.yaml", []string{"127.0.0.1:9093", "127.0.0.1:9095"}},
		{[]string{"--nodes", "a.example.com"}, "node-1/chronikd.yaml", []string{":9093", ":9095"}},
	} {
		dir := filepath.Join(t.TempDir(), "d")
		args := append([]string{"secure", "init", dir, "--no-context", "--password-file", passwordFile(t)}, c.args...)
		if code, _, errs := execute(t, nil, args...); code != exit.OK {
			t.Fatalf("%v: %d %s", c.args, code, errs)
		}
		cfg, err := resolve.Load(config.Input{File: filepath.Join(dir, c.file), ReadFile: os.ReadFile})
		must.OK(t, err)
		var got []string
		for _, l := range cfg.Listeners {
			got = append(got, l.Listen)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: listens on %q, want %q", c.args, got, c.want)
		}
	}
}

// The files that are not secret are readable under every umask, as the broker may be another user.
// Without HOME, as in a unit of systemd, chronikctl gets no context, which a note says, and the
// password has to be given.
func TestSecureInitUnderAUmask(t *testing.T) {
	dir, own := filepath.Join(t.TempDir(), "d"), passwordFile(t)
	before := syscall.Umask(0o077)
	code, _, errs := execute(t, nil, "secure", "init", dir, "--password-file", own)
	syscall.Umask(before)
	if code != exit.OK || !strings.Contains(errs, "HOME is not set") {
		t.Fatal(code, errs)
	}
	for name, want := range map[string]fs.FileMode{"ca.pem": 0o644, "server.pem": 0o644, "chronikd.yaml": 0o644, "server-key.pem": 0o600,
		"ca-key.pem": 0o600, "users": 0o600, "cluster.secret": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode().Perm(), err, want)
		}
	}
}

// A directory with files is never changed, but by --renew, which keeps the names and the authority.
func TestSecureInitAgain(t *testing.T) {
	dir, env := t.TempDir(), []string{contexts.EnvFile + "=" + filepath.Join(t.TempDir(), "c.yaml")}
	at := []string{"secure", "init", dir, "--advertise", "b1.example.com:9093", "--advertise", "10.1.2.3:19093"}
	if code, _, errs := execute(t, env, at...); code != exit.OK {
		t.Fatal(errs)
	}
	before := content(t, dir, "server.pem")
	if code, _, errs := execute(t, env, "secure", "init", dir); code != exit.Usage || !strings.Contains(errs, "is not empty") ||
		content(t, dir, "server.pem") != before {
		t.Errorf("again: %d %s", code, errs)
	}
	if code, _, errs := execute(t, env, "secure", "init", dir, "--renew"); code != exit.OK {
		t.Fatal(errs)
	}
	old, err := certs.Parse([]byte(before))
	must.OK(t, err)
	renewed, err := certs.Parse([]byte(content(t, dir, "server.pem")))
	must.OK(t, err)
	if renewed[0].SerialNumber.Cmp(old[0].SerialNumber) == 0 || !slices.Equal(renewed[0].DNSNames, old[0].DNSNames) ||
		len(renewed[0].IPAddresses) != len(old[0].IPAddresses) {
		t.Errorf("renewed %v to %v", old[0].DNSNames, renewed[0].DNSNames)
	}
	if code, _, errs := execute(t, env, "config", "check", "--config", filepath.Join(dir, "chronikd.yaml")); code != exit.OK {
		t.Errorf("after --renew: %s", errs)
	}
	other := filepath.Join(t.TempDir(), "other")
	if code, _, errs := execute(t, env, "secure", "init", other); code != exit.OK || !strings.Contains(errs, "secured-1") {
		t.Errorf("another directory: %d %s", code, errs)
	}
	own := filepath.Dir(strings.TrimPrefix(env[0], contexts.EnvFile+"="))
	if first, second := content(t, own, "secured-1.properties"), content(t, own, "secured.properties"); !strings.Contains(first, dir) ||
		!strings.Contains(second, other) {
		t.Errorf("files for Kafka's tools:\n%s\n%s", first, second)
	}
	// What is left of the files does not matter: the configuration has the names.
	for _, damaged := range []string{"", before[:len(before)/2]} {
		must.OK(t, os.WriteFile(filepath.Join(dir, "server.pem"), []byte(damaged), 0o600))
		code, _, errs := execute(t, env, "config", "check", "--config", filepath.Join(dir, "chronikd.yaml"))
		remedy := "run `chronikd secure init " + dir + " --renew`"
		if code == exit.OK || !strings.Contains(errs, remedy) {
			t.Errorf("a broker with %d bytes of a certificate: %d %s", len(damaged), code, errs)
		}
		if code, _, errs := execute(t, env, "secure", "init", dir, "--renew"); code != exit.OK {
			t.Fatalf("%d bytes of a certificate: %s", len(damaged), errs)
		}
		again, err := certs.Parse([]byte(content(t, dir, "server.pem")))
		must.OK(t, err)
		if !slices.Equal(again[0].DNSNames, old[0].DNSNames) || !slices.EqualFunc(again[0].IPAddresses, old[0].IPAddresses, net.IP.Equal) ||
			again[0].Subject.CommonName != old[0].Subject.CommonName {
			t.Errorf("%v %v for %v %v", again[0].DNSNames, again[0].IPAddresses, old[0].DNSNames, old[0].IPAddresses)
		}
	}
	foreign, key := content(t, other, "server.pem"), content(t, dir, "server-key.pem")
	must.OK(t, os.WriteFile(filepath.Join(dir, "server.pem"), []byte(foreign), 0o600))
	if code, _, errs := execute(t, env, "secure", "init", dir, "--renew"); code != exit.Usage ||
		!strings.Contains(errs, "not signed by the authority in ca.pem") || content(t, dir, "server.pem") != foreign ||
		content(t, dir, "server-key.pem") != key {
		t.Errorf("a certificate of another authority: %d %s", code, errs)
	}
	must.OK(t, os.Remove(filepath.Join(dir, "ca-key.pem")))
	if code, _, errs := execute(t, env, "secure", "init", dir, "--renew"); code != exit.Usage ||
		!strings.Contains(errs, "put the authority's key back") {
		t.Errorf("without the key: %d %s", code, errs)
	}
}

// passwordFile returns a file with a password.
func passwordFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	must.OK(t, os.WriteFile(path, []byte("correct-horse\n"), 0o600))
	return path
}

func TestSecureInitOfACluster(t *testing.T) {
	dir := t.TempDir()
	nodes := []string{"secure", "init", dir, "--no-context", "--nodes", "a.example.com,b.example.com,c.example.com"}
	if code, _, errs := execute(t, nil, nodes...); code != exit.Usage || !strings.Contains(errs, "the password is empty") {
		t.Errorf("without a password: %d %s", code, errs)
	}
	code, _, errs := execute(t, nil, append(nodes, "--password-file", passwordFile(t))...)
	if code != exit.OK {
		t.Fatal(errs)
	}
	secrets := map[string]bool{}
	for i, node := range []string{"node-1", "node-2", "node-3"} {
		at := filepath.Join(dir, node, "chronikd.yaml")
		cfg, err := resolve.Load(config.Input{File: at, ReadFile: os.ReadFile})
		must.OK(t, err)
		if cfg.Broker["node.id"] != string(rune('1'+i)) || cfg.Listeners[1].ClientCertificates != config.CertificatesRequire {
			t.Errorf("%s: %+v", node, cfg.Listeners)
		}
		c, err := guard.OpenCertificates(cfg, zap.NewNop())
		must.OK(t, err)
		if dn := certs.DN(c.Listener("peers").Certificate()); dn != "CN=chronik-broker" {
			t.Errorf("%s is %s", node, dn)
		}
		secrets[content(t, dir, node, "cluster.secret")] = true
	}
	if len(secrets) != 1 {
		t.Error("the nodes have different secrets")
	}
	if _, err := os.Stat(filepath.Join(dir, "node-1", "ca-key.pem")); err == nil {
		t.Error("a node has the authority's key")
	}
}

// addTo makes a cluster of three, and returns its directory and a function that adds to it.
func addTo(t *testing.T) (dir string, add func(args ...string) (code int, out, errs string)) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "cluster")
	code, _, errs := execute(t, nil, "secure", "init", dir, "--no-context", "--password-file", passwordFile(t),
		"--nodes", "a.example.com:9093,b.example.com:9093,10.0.0.13:9093") // three hosts, the same ports
	if code != exit.OK {
		t.Fatal(errs)
	}
	return dir, func(args ...string) (int, string, string) {
		return execute(t, nil, append([]string{"secure", "add", dir}, args...)...)
	}
}

// Contexts of the cluster get a command that adds the new broker, and others and those that have it
// already do not.
func TestSecureAddNamesTheContextsThatLackTheBroker(t *testing.T) {
	dir, _ := addTo(t)
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	text := "contexts:\n  prod: {brokers: [a.example.com:9093], tls-ca: CA}\n  whole: {brokers: ['d.example.com:9093'], tls-ca: CA}\n" +
		"  other: {brokers: [a.example.com:9093], tls-ca: /other/ca.pem}\n"
	text = strings.ReplaceAll(text, "CA", filepath.Join(dir, "ca.pem"))
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	code, out, errs := execute(t, []string{contexts.EnvFile + "=" + path}, "secure", "add", dir, "--nodes", "d.example.com:9093")
	const want = "when they run: chronikctl context set prod brokers=a.example.com:9093,d.example.com:9093\n"
	if code != exit.OK || !strings.HasSuffix(out, want) || strings.Count(out, "context set") != 1 {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if now := content(t, path); now != text {
		t.Errorf("the contexts have changed: %s", now)
	}
}

// A broker that joins has the cluster's secret and seeds, and a certificate whose names the
// authority's new one permits. The brokers that are there change in nothing but this new one.
func TestSecureAdd(t *testing.T) {
	dir, add := addTo(t)
	before, own := content(t, dir, "ca.pem"), content(t, dir, "node-1", "chronikd.yaml")+content(t, dir, "node-1", "server.pem")
	code, out, errs := add("--nodes", "10.0.0.14:9093")
	if code != exit.OK || !strings.Contains(out, "1. copy it over the ca.pem of each broker") {
		t.Fatal(code, out, errs)
	}
	wide := content(t, dir, "ca.pem")
	for _, node := range []string{"node-1", "node-2", "node-3", "node-4"} {
		if content(t, dir, node, "ca.pem") != wide || wide == before {
			t.Errorf("%s has another authority, or it has not changed", node)
		}
	}
	code, out, errs = add("--nodes", "sub.a.example.com,10.0.0.13:9193") // what it permits already
	if code != exit.OK || !strings.Contains(out, "ca.pem has not changed") || content(t, dir, "ca.pem") != wide {
		t.Error(code, out, errs)
	}
	if content(t, dir, "node-1", "chronikd.yaml")+content(t, dir, "node-1", "server.pem") != own {
		t.Error("files of a broker that is there have changed")
	}
	seeds := "a.example.com:9095,b.example.com:9095,10.0.0.13:9095"
	for i, listen := range []string{":9093", ":9093", ":9193"} {
		node := "node-" + string(rune('4'+i))
		cfg, err := resolve.Load(config.Input{File: filepath.Join(dir, node, "chronikd.yaml"), ReadFile: os.ReadFile})
		must.OK(t, err)
		if cfg.Broker["node.id"] != node[5:] || cfg.Broker["cluster.seeds"] != seeds || cfg.Listeners[0].Listen != listen {
			t.Errorf("%s: %v %+v", node, cfg.Broker, cfg.Listeners)
		}
		c, err := guard.OpenCertificates(cfg, zap.NewNop())
		must.OK(t, err)
		var f checks.Facts
		c.Facts(&f)
		for _, x := range f.CertificateFiles {
			if x.Problem != "" || len(x.Warnings) > 0 {
				t.Errorf("%+v", x)
			}
		}
		modes := map[string]fs.FileMode{"cluster.secret": 0o600, "admin.token": 0o600, "server-key.pem": 0o600, "ca.pem": 0o644}
		for name, mode := range modes {
			info, err := os.Stat(filepath.Join(dir, node, name))
			if err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s of %s: %v %v", name, node, info, err)
			}
		}
		if content(t, dir, node, "cluster.secret") != content(t, dir, "node-1", "cluster.secret") {
			t.Errorf("%s has another secret", node)
		}
		for _, never := range []string{"users", "ca-key.pem"} {
			if _, err := os.Stat(filepath.Join(dir, node, never)); err == nil {
				t.Errorf("%s has %s", node, never)
			}
		}
	}
	if code, _, errs := execute(t, nil, "secure", "init", dir, "--renew"); code != exit.OK {
		t.Error(errs)
	}
}

// Whatever is refused changes nothing.
func TestMistakesOfSecureAdd(t *testing.T) {
	dir, add := addTo(t)
	before := content(t, dir, "ca.pem")
	refused := func(want string, args ...string) {
		t.Helper()
		if code, _, errs := add(args...); code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%v: %d %s, want %s", args, code, errs, want)
		}
		if _, err := os.Stat(filepath.Join(dir, "node-4")); err == nil || content(t, dir, "ca.pem") != before {
			t.Errorf("%v: it has written something", args)
		}
	}
	refused("--nodes names the brokers that join")
	refused("is not a host name", "--nodes", "*.example.com")
	refused("another node has its ports", "--nodes", "A.example.com:9093")
	refused("another node has its ports", "--nodes", "b.example.com:9094")
	refused("another node has its ports", "--nodes", "d.example.com,d.example.com:9093")
	key := filepath.Join(dir, "ca-key.pem")
	must.OK(t, os.Chmod(key, 0o640))
	refused("other users can read it (mode 0640)", "--nodes", "d.example.com")
	must.OK(t, os.Rename(key, key+".elsewhere"))
	refused("put the authority's key back", "--nodes", "d.example.com")
	must.OK(t, os.Chmod(key+".elsewhere", 0o600))
	must.OK(t, os.Rename(key+".elsewhere", key))
	secret := filepath.Join(dir, "node-3", "cluster.secret")
	must.OK(t, os.Rename(secret, secret+".away"))
	refused("cluster.secret: no such file", "--nodes", "d.example.com")
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		must.OK(t, os.RemoveAll(filepath.Join(dir, node)))
	}
	refused("copy the directory of one of its nodes there", "--nodes", "d.example.com")
	if code, _, errs := execute(t, nil, "secure", "init", dir); code != exit.Usage || !strings.Contains(errs, "chronikd secure add") {
		t.Errorf("init again: %d %s", code, errs)
	}
	if code, _, errs := execute(t, nil, "secure", "add"); code != exit.Usage || !strings.Contains(errs, "needs one directory") {
		t.Errorf("without a directory: %d %s", code, errs)
	}
}

func TestMistakesOfSecureInit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "needs one directory"},
		{[]string{filepath.Join(file, "x")}, "name a directory that can be made"},
		{[]string{filepath.Dir(file)}, "is not empty (file); name a new directory\n"},
		{[]string{"x", "--advertise", "a_b:9093"}, "with a name of letters, digits"},
		{[]string{"x", "--advertise", "host"}, "is not HOST:PORT"},
		{[]string{"x", "--advertise", "*.example.com:1"}, "is not HOST:PORT"},
		{[]string{"x", "--advertise", "0.0.0.0:9093"}, "is not HOST:PORT"},
		{[]string{"x", "--advertise", "[::]:9093"}, "is not HOST:PORT"},
		{[]string{"x", "--advertise", "[fe80::1%eth0]:9093"}, "is not HOST:PORT"},
		{[]string{"x", "--advertise", "a..b:9093"}, "is not HOST:PORT"},
		{[]string{"x", "--advertise", "a.-b:9093"}, "is not HOST:PORT"},
		{[]string{"x", "--advertise", "10.1.2:9093"}, "is not HOST:PORT"},
		{[]string{"x", "--nodes", "0.0.0.0"}, "is not a host name"},
		{[]string{"x", "--advertise", "a:1", "--advertise", "b:1"}, "have the same port"},
		{[]string{"x", "--nodes", "a,b"}, "write 1, 3 or 5"},
		{[]string{"x", "--nodes", "a,a,b"}, "another node has its ports"},
		{[]string{"x", "--nodes", "a:9093,a:9094,a:9095"}, "\"a:9094\" is not a host name, or another"},
		{[]string{"x", "--nodes", "a:65534"}, "is not a host name"},
		{[]string{"x", "--nodes", "a", "--advertise", "a:1"}, "exclude each other"},
		{[]string{"x", "--renew", "--nodes", "a"}, "--renew keeps the names"},
		{[]string{"x", "--data-dir", "/d"}, "--data-dir has no effect here: chronikd secure init writes"},
		{[]string{"x", "--set", "node.id=2"}, "--set has no effect here"},
		{[]string{"x", "--renew"}, "no such file"},
	} {
		t.Chdir(t.TempDir())
		code, _, errs := execute(t, nil, append([]string{"secure", "init"}, c.args...)...)
		if code != exit.Usage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: %d %s, want %s", c.args, code, errs, c.want)
		}
		if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
			t.Errorf("%v: it has made %v", c.args, entries)
		}
	}
}
