package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/secureinit"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
	"github.com/chronik-io/chronik/internal/vfs"
)

// besieged is a broker of a secured cluster of one, with what a second one would have.
type besieged struct {
	*Broker
	t       *testing.T
	dir     string
	at      string // of the listener for brokers
	own     *config.Config
	read    func() (*config.Config, error) // Options.Reread
	logged  *observer.ObservedLogs
	secrets []secret.Secret
	ca      *certs.Authority
	reload  chan struct{} // Options.Reload
}

// besiege starts the broker that `secure init --nodes` describes.
func besiege(t *testing.T) *besieged {
	t.Helper()
	dir := t.TempDir()
	port, err := ports.Free(3)
	must.OK(t, err)
	secured(t, dir, fmt.Sprint("localhost:", port))
	s := &besieged{t: t, dir: dir, reload: make(chan struct{}), at: fmt.Sprint("localhost:", port+2)}
	read := func(name string) []byte { return []byte(content(t, dir, name)) }
	if s.ca, err = certs.LoadAuthority(read("ca.pem"), read("ca-key.pem")); err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(dir, "node-1")
	secret := filepath.Join(node, "cluster.secret")
	must.OK(t, os.WriteFile(secret, append([]byte(strings.Repeat("n", 32)+"\n"), content(t, secret)...), 0o600))
	s.read = func() (*config.Config, error) {
		return resolve.Load(config.Input{File: filepath.Join(node, "chronikd.yaml"), ReadFile: os.ReadFile, Set: []string{"audit.log=off"},
			Flags: map[string]string{config.KeyDataDir: "/data", config.KeyAdminListen: "off"}})
	}
	if s.own, err = s.read(); err != nil {
		t.Fatal(err)
	}
	if s.secrets, err = guard.ReadSecrets(secret); err != nil || len(s.secrets) != 2 {
		t.Fatal(len(s.secrets), err)
	}
	var core zapcore.Core
	core, s.logged = observer.New(zap.InfoLevel)
	s.Broker, err = Start(t.Context(), Options{Config: s.own, FS: vfs.Memory(), Log: zap.New(core), Version: "test",
		Reload: s.reload, Reread: s.read, JournalFileSize: 1 << 20, JournalBytes: 16 << 20})
	must.OK(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dialer returns how a broker with the certificate dials; nil: it shows none.
func (s *besieged) dialer(own *tls.Certificate) func(ctx context.Context, address string) (net.Conn, error) {
	conf := &tls.Config{RootCAs: s.certs.Listener("peers").Config().ClientCAs, ServerName: "localhost", MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }}
	if own == nil {
		conf.GetClientCertificate = nil
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		return (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", address)
	}
}

// leaf makes a certificate.
func leaf(t *testing.T, ca *certs.Authority, subject string, now time.Time) *tls.Certificate {
	t.Helper()
	var pair certs.Pair
	var own tls.Certificate
	pair, err := ca.Leaf(subject, []string{"localhost"}, now)
	if err == nil {
		own, err = tls.X509KeyPair(pair.Certificate, pair.Key)
	}
	must.OK(t, err)
	return &own
}

// expired makes a certificate of a broker that was valid until a moment ago.
func (s *besieged) expired(t *testing.T) *tls.Certificate {
	t.Helper()
	ca, err := tls.X509KeyPair(s.ca.CertificatePEM, s.ca.KeyPEM)
	must.OK(t, err)
	own := leaf(t, s.ca, secureinit.BrokerSubject, time.Now())
	old := *own.Leaf
	old.NotAfter = time.Now().Add(-time.Minute)
	if own.Certificate[0], err = x509.CreateCertificate(rand.Reader, &old, ca.Leaf, own.Leaf.PublicKey, ca.PrivateKey); err != nil {
		t.Fatal(err)
	}
	return own
}

// second returns what a second broker of the cluster begins its links with.
func (s *besieged) second(t *testing.T) (link.Options, *link.Identity) {
	t.Helper()
	p, err := guard.NewPeers("peers", "", s.certs, new(net.Dialer).DialContext)
	must.OK(t, err)
	m := s.components.member
	id := &link.Identity{ClusterName: "chronik", ClusterID: m.ID(), Generation: m.Store().Generation(), Node: 2, Member: 77,
		BrokerEpoch: -1, FeatureLevel: int16(metadata.MaxFeatureLevel)}
	return link.Options{Identity: func() link.Identity { return *id }, Dial: p.Dial, Secrets: slices.Clone(s.secrets)}, id
}

// begins dials the broker and returns the first thing that happens.
func begins(t *testing.T, o link.Options, address string) link.Event {
	t.Helper()
	events := make(chan link.Event, 1)
	o.Notify = func(e link.Event) {
		select {
		case events <- e:
		default:
		}
	}
	l, err := link.New(o)
	must.OK(t, err)
	defer l.Close()
	defer l.Peer(link.Target{Address: address, Node: -1}).Close()
	return <-events
}

// refused checks that an event is a refusal with its cause and remedy.
func refused(t *testing.T, e link.Event, reason link.Reason, want string) {
	t.Helper()
	m := (*link.Mismatch)(nil)
	if !errors.As(e.Err, &m) || e.Kind != link.Rejected || m.Reason != reason || !strings.Contains(m.Error(), want) || m.Remedy == "" {
		t.Errorf("event %d, %v, want the reason %d with %q and a remedy", e.Kind, e.Err, reason, want)
	}
}

// Only who has a broker's certificate, the secret, and the right names begins a link.
func TestWhoBeginsALink(t *testing.T) {
	s := besiege(t)
	stranger, err := certs.NewAuthority("chronik private CA", []string{"localhost"}, time.Now())
	must.OK(t, err)
	for name, c := range map[string]struct {
		change func(o *link.Options, id *link.Identity)
		reason link.Reason // 0: it connects
		want   string
	}{
		"another broker":               {change: func(*link.Options, *link.Identity) {}},
		"the other secret of the file": {change: func(o *link.Options, _ *link.Identity) { slices.Reverse(o.Secrets) }},
		"another secret": {change: func(o *link.Options, _ *link.Identity) {
			o.Secrets = []secret.Secret{secret.Of(strings.Repeat("x", 32))}
		},
			reason: link.WrongSecret, want: "did not prove"},
		"no secret": {change: func(o *link.Options, _ *link.Identity) { o.Secrets = nil }, reason: link.WrongSecret, want: "cluster.secret.file"},
		"another cluster": {change: func(_ *link.Options, id *link.Identity) { id.ClusterID = "other" }, reason: link.WrongCluster,
			want: "the cluster id"},
		"another cluster's name": {change: func(_ *link.Options, id *link.Identity) { id.ClusterName = "other" }, reason: link.WrongCluster,
			want: "cluster.name"},
		"recovered metadata": {change: func(_ *link.Options, id *link.Identity) { id.Generation[0]++ }, reason: link.WrongGeneration,
			want: "generation"},
		"the broker's own id": {change: func(_ *link.Options, id *link.Identity) { id.Node = 1 }, reason: link.WrongNode,
			want: "node.id 1 is used by two nodes"},
		"a client's certificate": {change: func(o *link.Options, _ *link.Identity) {
			o.Dial = s.dialer(leaf(t, s.ca, "orders", time.Now()))
		}, reason: link.NotAdmitted, want: "the certificate of User:CN=orders is not one of a broker"},
		"another authority": {change: func(o *link.Options, _ *link.Identity) {
			o.Dial = s.dialer(leaf(t, stranger, secureinit.BrokerSubject, time.Now()))
		}, reason: link.NotAdmitted, want: "this broker's certificate"},
		"an expired certificate": {change: func(o *link.Options, _ *link.Identity) {
			o.Dial = s.dialer(s.expired(t))
		}, reason: link.NotAdmitted, want: "this broker's certificate"},
		"no certificate": {change: func(o *link.Options, _ *link.Identity) { o.Dial = s.dialer(nil) }, reason: link.NotAdmitted,
			want: "this broker's certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			o, id := s.second(t)
			c.change(&o, id)
			e := begins(t, o, s.at)
			if c.reason != 0 {
				refused(t, e, c.reason, c.want)
				if op := (*net.OpError)(nil); name == "an expired certificate" && !errors.As(e.Err, &op) {
					t.Errorf("%v does not have the alert that the other end sent", e.Err)
				}
			} else if e.Kind != link.Connected || e.Peer.Node != 1 {
				t.Errorf("event %d, node %d, %v", e.Kind, e.Peer.Node, e.Err)
			}
		})
	}
}

// connect begins a link to the broker, and returns its further events and what ends it.
func (s *besieged) connect(t *testing.T, o link.Options) (events chan link.Event, done func()) {
	t.Helper()
	events = make(chan link.Event, 100)
	o.Notify = func(e link.Event) { events <- e }
	l, err := link.New(o)
	must.OK(t, err)
	peer := l.Peer(link.Target{Address: s.at, Node: -1})
	if e := <-events; e.Kind != link.Connected {
		t.Fatal(e.Kind, e.Err)
	}
	return events, func() { peer.Close(); l.Close() }
}

// A link ends when its principal is not one of a broker any more, as it could not begin again: here
// the broker's own certificate gets another subject, which stands for all of cluster.principals.
func TestALinkEndsWithItsPrincipal(t *testing.T) {
	s := besiege(t)
	o, _ := s.second(t)
	events, done := s.connect(t, o)
	defer done()
	p, err := guard.NewPeers("peers", "", s.certs, nil)
	must.OK(t, err)
	shown := leaf(t, s.ca, secureinit.BrokerSubject, time.Now()).Leaf
	if err := p.Trusts([]*x509.Certificate{shown}); err != nil {
		t.Errorf("with the same subject: %v", err)
	}
	pair, err := s.ca.Leaf("renamed", []string{"localhost"}, time.Now())
	must.OK(t, err)
	node := filepath.Join(s.dir, "node-1")
	err = errors.Join(os.WriteFile(filepath.Join(node, "server-key.pem"), pair.Key, 0o600),
		os.WriteFile(filepath.Join(node, "server.pem"), pair.Certificate, 0o600))
	must.OK(t, err)
	s.reload <- struct{}{}
	if e := <-events; e.Kind != link.Broken {
		t.Errorf("event %d after the change: %v", e.Kind, e.Err)
	}
	if err := p.Trusts([]*x509.Certificate{shown}); err == nil || !strings.Contains(err.Error(), config.KeyClusterPrincipal) {
		t.Errorf("with another subject: %v", err)
	}
}

// configure adds lines to the broker's configuration, sends SIGHUP, and returns what the log says.
func (s *besieged) configure(lines string) *observer.ObservedLogs {
	s.t.Helper()
	file := filepath.Join(s.dir, "node-1", "chronikd.yaml")
	if err := os.WriteFile(file, []byte(content(s.t, file)+lines), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.logged.TakeAll()
	s.reload <- struct{}{}
	s.reload <- struct{}{} // it is taken when the first has been done
	return s.logged.Filter(func(e observer.LoggedEntry) bool { return e.LoggerName == "configuration" })
}

// SIGHUP takes cluster.principals from the configuration: links of brokers that it leaves out end,
// those that it names begin. It says which other settings need a restart, and takes nothing from a
// configuration with a mistake.
func TestClusterPrincipalsAreReadAgain(t *testing.T) {
	s := besiege(t)
	o, _ := s.second(t)
	o.Dial = s.dialer(leaf(t, s.ca, secureinit.BrokerSubject, time.Now()))
	events, done := s.connect(t, o)
	defer done()
	says := func(lines, want string) {
		t.Helper()
		for _, e := range s.configure(lines).All() {
			if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line, want) {
				return
			}
		}
		t.Fatalf("the log does not say %q: %v", want, s.logged.All())
	}
	if lines := s.configure(""); lines.Len() > 0 {
		t.Errorf("the log says about a configuration that has not changed: %v", lines.All())
	}
	says("num.partitions: 7\n", "settings:[num.partitions]")
	says("profiles: {slow: {ack: synced, max_wait: 50ms}}\n", "settings:[num.partitions profiles]")
	says("cluster.principals: [\"CN=next\"]\n", "is not User:NAME")
	if len(events) > 0 {
		t.Fatalf("a link has ended: %v", (<-events).Err)
	}

	file := filepath.Join(s.dir, "node-1", "chronikd.yaml")
	text, _, _ := strings.Cut(content(t, file), "num.partitions")
	list := func(names ...string) {
		t.Helper()
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
		says("cluster.principals: ["+strings.Join(names, ", ")+"]\n", fmt.Sprintf("now:%v", names))
	}
	list("User:CN=next")
	if e := <-events; e.Kind != link.Broken {
		t.Errorf("event %d after the change: %v", e.Kind, e.Err)
	}
	refused(t, <-events, link.NotAdmitted, "User:CN="+secureinit.BrokerSubject+" is not one of a broker")
	list("User:CN=next", "User:CN="+secureinit.BrokerSubject)
	for e := range events {
		if e.Kind == link.Connected {
			break
		}
		refused(t, e, link.NotAdmitted, "is not one of a broker") // it was on its way
	}
}

// A broker sends nothing to a process that is no broker.
func TestWhoIsDialed(t *testing.T) {
	s := besiege(t)
	stranger, err := certs.NewAuthority("chronik private CA", []string{"localhost"}, time.Now())
	must.OK(t, err)
	for name, c := range map[string]struct {
		shows *tls.Certificate // nil: plain text
		host  string
		want  string
	}{
		"a client's certificate": {leaf(t, s.ca, "orders", time.Now()), "localhost", "User:CN=orders is not one of a broker"},
		"another authority": {leaf(t, stranger, secureinit.BrokerSubject, time.Now()), "localhost",
			"; add its authority to tls.client-ca"},
		"another name": {leaf(t, s.ca, secureinit.BrokerSubject, time.Now()), "127.0.0.1",
			"give that broker a certificate with the name that is dialed"},
		"plain text": {nil, "localhost", "does not use TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must.OK(t, err)
			received := make(chan []byte, 1)
			go func() {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				if c.shows == nil {
					_, _ = nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
				} else {
					nc = tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{*c.shows}, MinVersion: tls.VersionTLS13})
				}
				p, _ := io.ReadAll(nc) // the end of the connection is an error or not
				_ = nc.Close()
				received <- p
			}()
			o, _ := s.second(t)
			_, port, err := net.SplitHostPort(l.Addr().String())
			must.OK(t, err)
			refused(t, begins(t, o, net.JoinHostPort(c.host, port)), link.NotAdmitted, c.want)
			_ = l.Close()
			if p := <-received; c.shows != nil && len(p) > 0 {
				t.Errorf("it was told %q", p)
			}
		})
	}
}

// A relay has two connections of TLS, even with a broker's certificate, so neither proof fits.
func TestALinkIsNotRelayed(t *testing.T) {
	s := besiege(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", s.certs.Listener("peers").Config())
	must.OK(t, err)
	defer l.Close()
	o, _ := s.second(t)
	go func() {
		from, err := l.Accept()
		if err != nil {
			return
		}
		defer from.Close()
		to, err := o.Dial(context.Background(), s.at)
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		_, _ = io.Copy(from, to)
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must.OK(t, err)
	refused(t, begins(t, o, net.JoinHostPort("localhost", port)), link.WrongSecret, "did not prove")
}

// recorder keeps what is written to a connection of TLS.
type recorder struct {
	*tls.Conn
	written bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.written.Write(p)
	return r.Conn.Write(p)
}

// A process that has heard a whole handshake cannot repeat it. Without TLS and on a listener
// for clients its first bytes are not answered at all.
func TestALinkIsNotReplayed(t *testing.T) {
	s := besiege(t)
	o, _ := s.second(t)
	dial := o.Dial
	heard := make(chan *recorder, 1)
	o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		nc, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		r := &recorder{Conn: nc.(*tls.Conn)}
		select {
		case heard <- r:
		default:
		}
		return r, nil
	}
	if e := begins(t, o, s.at); e.Kind != link.Connected {
		t.Fatal(e.Kind, e.Err)
	}
	first := (<-heard).written.Bytes()
	n := 4 + int(binary.BigEndian.Uint32(first)) + frame.HeaderSize + sha256.Size // request and proof
	first = first[:n]

	nc, err := dial(t.Context(), s.at)
	must.OK(t, err)
	defer nc.Close()
	if _, err := nc.Write(first); err != nil {
		t.Fatal(err)
	}
	for _, want := range []frame.Kind{frame.HE, frame.NO} {
		var head [frame.HeaderSize]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			t.Fatal(err)
		}
		h, err := frame.ParseHeader(head[:], frame.MinVersion)
		if err != nil || h.Kind != want {
			t.Fatalf("%s, %v, want %s", h.Kind, err, want)
		}
		if _, err := io.CopyN(io.Discard, nc, int64(h.Length)); err != nil {
			t.Fatal(err)
		}
	}

	plain, err := net.Dial("tcp", s.at)
	must.OK(t, err)
	defer plain.Close()
	host, port, err := net.SplitHostPort(s.own.Listeners[0].Advertise)
	must.OK(t, err)
	toClients, err := dial(t.Context(), net.JoinHostPort(host, port))
	must.OK(t, err)
	defer toClients.Close()
	for name, nc := range map[string]net.Conn{"plain text": plain, "listener for clients": toClients} {
		if _, err := nc.Write(first); err != nil {
			t.Fatal(name, err)
		}
		if p, err := io.ReadAll(nc); len(p) > 0 {
			t.Errorf("%s: answered with %x, %v", name, p, err)
		}
	}
}
