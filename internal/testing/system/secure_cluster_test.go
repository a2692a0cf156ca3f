package system

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/chronik-io/chronik/internal/testing/ports"
)

// securedNodes are the brokers that secure init has made.
type securedNodes struct {
	*nodes
	dir     string
	next    string // another installation of the same brokers, whose authority replaces the first
	trusted *x509.CertPool
}

// newSecuredNodes makes three brokers on this machine.
func newSecuredNodes(t *testing.T) *securedNodes {
	t.Helper()
	c := &securedNodes{nodes: newNodes(t, 3), dir: filepath.Join(t.TempDir(), "secured"), trusted: x509.NewCertPool()}
	for i := range c.seeds {
		port, err := ports.Free(3)
		if err != nil {
			t.Fatal(err)
		}
		c.seeds[i], c.ports[i] = fmt.Sprint("localhost:", port), fmt.Sprint("localhost:", port+1)
	}
	c.next = c.dir + "-next"
	for _, dir := range []string{c.dir, c.next} { // clients trust both authorities
		c.secure(dir, "--no-context", "--nodes", strings.Join(c.seeds, ","))
		authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
		if err != nil || !c.trusted.AppendCertsFromPEM(authority) {
			t.Fatal(err)
		}
	}
	return c
}

// adminPassword is the password of admin that secure init is given.
const adminPassword = "correct-horse-battery"

// secure runs chronikd secure init.
func (c *securedNodes) secure(dir string, args ...string) {
	c.t.Helper()
	c.chronikd(adminPassword, append([]string{"secure", "init", dir}, args...)...)
}

// chronikd runs a command that reads a password.
func (c *securedNodes) chronikd(password string, args ...string) {
	c.t.Helper()
	cmd := exec.Command(cmp.Or(os.Getenv("CHRONIKD"), "chronikd"), args...)
	cmd.Stdin = strings.NewReader(password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// start starts brokers with nothing but their configuration, and waits until they serve clients.
func (c *securedNodes) start(which ...int) {
	c.t.Helper()
	for _, i := range which {
		p, err := launch(c.dirs[i], nil, "--config", filepath.Join(c.dir, fmt.Sprint("node-", i+1), "chronikd.yaml"))
		if err != nil {
			c.t.Fatal(err)
		}
		c.run[i] = p
	}
	c.await(which...)
}

// as returns a client of a user.
func (c *securedNodes) as(user, password string, opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.seeds...),
		kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()),
		kgo.DialTLSConfig(&tls.Config{RootCAs: c.trusted, MinVersion: tls.VersionTLS12})}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// everywhere asks every running broker, on a new connection as a user, until it gives this answer
// about a topic.
func (c *securedNodes) everywhere(user, password, topic string, want error) {
	c.t.Helper()
	for i := range c.seeds {
		if c.run[i] == nil {
			continue
		}
		c.eventually(fmt.Sprintf("%s at broker %d", user, i+1), func(ctx context.Context) string {
			cl := c.as(user, password, kgo.SeedBrokers(c.seeds[i]), kgo.RequestRetries(0))
			defer cl.Close()
			m, err := kadm.NewClient(cl).Metadata(ctx, topic)
			if err == nil {
				err = m.Topics[topic].Err
			}
			if !errors.Is(err, want) {
				return fmt.Sprint(err)
			}
			return ""
		})
	}
}

// allow lets a user write to a topic.
func allow(user, topic string) *kadm.ACLBuilder {
	return kadm.NewACLs().Allow("User:" + user).AllowHosts().Topics(topic).Operations(kadm.OpWrite).
		ResourcePatternType(kadm.ACLPatternLiteral)
}

// grant gives a new user a password and the right to write to a topic, and waits until all brokers
// know both.
func (c *securedNodes) grant(admin *kadm.Client, user, topic string) (password string) {
	c.t.Helper()
	password = "the password of " + user
	users, err := admin.AlterUserSCRAMs(c.t.Context(), nil,
		[]kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
	if err == nil {
		err = users.Error()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.everywhere(user, password, topic, kerr.TopicAuthorizationFailed)
	made, err := admin.CreateACLs(c.t.Context(), allow(user, topic))
	if err == nil {
		err = made[0].Err
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.everywhere(user, password, topic, nil)
	return password
}

// served returns the serial number of the certificate that a broker shows.
func (c *securedNodes) served(i int) string {
	c.t.Helper()
	nc, err := tls.Dial("tcp", c.seeds[i], &tls.Config{RootCAs: c.trusted, MinVersion: tls.VersionTLS12})
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	return nc.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// replace writes files of each broker, by name, and waits until all brokers use them.
func (c *securedNodes) replace(made func(node string) map[string][]byte) {
	c.t.Helper()
	reloaded := func(p *process) int {
		n := 0
		for line := range strings.Lines(p.logged()) {
			if strings.Contains(line, "certificates reloaded") && strings.Contains(line, "peers") {
				n++
			}
		}
		return n
	}
	for i, p := range c.run {
		before, node := reloaded(p), fmt.Sprint("node-", i+1)
		for name, text := range made(node) {
			name = filepath.Join(c.dir, node, name)
			if err := cmp.Or(os.WriteFile(name+".new", text, 0o600), os.Rename(name+".new", name)); err != nil {
				c.t.Fatal(err)
			}
		}
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			c.t.Fatal(err)
		}
		c.eventually("reloaded certificates", func(context.Context) string {
			if n := reloaded(p); n == before {
				return fmt.Sprintf("broker %d has reloaded %d times", i+1, n)
			}
			return ""
		})
	}
}

// lines counts the lines of a broker's log with a text that concern another broker.
func (c *securedNodes) lines(i int, text string, about int) (n int) {
	for line := range strings.Lines(c.run[i].logged()) {
		if strings.Contains(line, text) && strings.Contains(line, fmt.Sprintf(`"node":%d,`, about+1)) {
			n++
		}
	}
	return n
}

// rotate replaces the authority of the brokers' certificates by another one, as docs/security.md
// has it. Links whose certificates are of the removed one must end.
func (c *securedNodes) rotate() {
	c.t.Helper()
	read := func(dir, node, name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, node, name))
		if err != nil {
			c.t.Fatal(err)
		}
		return text
	}
	c.replace(func(node string) map[string][]byte {
		return map[string][]byte{"ca.pem": append(read(c.dir, node, "ca.pem"), read(c.next, node, "ca.pem")...)}
	})
	c.replace(func(node string) map[string][]byte {
		return map[string][]byte{"server-key.pem": read(c.next, node, "server-key.pem"), "server.pem": read(c.next, node, "server.pem")}
	})
	const ended = "certificate is not accepted here any more: its authority was removed"
	for i, p := range c.run {
		if strings.Contains(p.logged(), ended) {
			c.t.Errorf("broker %d has ended a link before an authority was removed", i+1)
		}
	}
	c.replace(func(node string) map[string][]byte { return map[string][]byte{"ca.pem": read(c.next, node, "ca.pem")} })
	// Of two brokers, the one that reads its authorities first ends their links, which began with
	// certificates of the former authority. They begin new ones, and nothing is left for the other.
	c.eventually("links that ended", func(context.Context) string {
		for i := 1; i < len(c.run); i++ {
			if n := c.lines(0, ended, i) + c.lines(i, ended, 0); n < 2 {
				return fmt.Sprintf("brokers 1 and %d use links of the removed authority: %d have ended", i+1, n)
			}
		}
		return ""
	})
}

// Three brokers form a secured cluster with nothing but what secure init wrote. New users, rights
// and certificates take effect on all of them while clients write, and no request fails. The same
// holds while one broker is down; it has all changes when it is back.
func TestASecuredClusterChangesUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	c := newSecuredNodes(t)
	// Brokers look for changed files at any time, also between a certificate and its key.
	c.expected = []string{"changed certificate files were not taken"}
	c.start(0, 1, 2)
	root := c.as("admin", adminPassword)
	admin := kadm.NewClient(root)
	if made, err := admin.CreateTopic(t.Context(), 3, 3, nil, "orders"); err != nil || made.Err != nil {
		t.Fatal(err, made.Err)
	}
	c.eventually("replicas in sync", func(ctx context.Context) string {
		topics, err := admin.ListTopics(ctx, "orders")
		if err != nil {
			return err.Error()
		}
		for _, p := range topics["orders"].Partitions {
			if len(p.ISR) != 3 {
				return fmt.Sprint(p.ISR)
			}
		}
		return ""
	})

	// Every request of this client must succeed at the first attempt.
	writer := c.as("writer", c.grant(admin, "writer", "orders"), kgo.DefaultProduceTopic("orders"),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.RequestRetries(0))
	var written atomic.Int64
	load, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for load.Err() == nil {
			if err := writer.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
				ended <- err
				return
			}
			written.Add(1)
		}
		ended <- nil
	}()
	for i := range 3 {
		before := []string{c.served(0), c.served(1), c.served(2)}
		c.secure(c.dir, "--renew")
		for _, p := range c.run {
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		user := fmt.Sprint("clerk-", i)
		c.grant(admin, user, "orders")
		c.eventually("renewed certificates", func(context.Context) string {
			for i, old := range before {
				if c.served(i) == old {
					return fmt.Sprintf("broker %d shows the former one", i+1)
				}
			}
			return ""
		})
		gone, err := admin.DeleteACLs(t.Context(), allow(user, "orders"))
		if err != nil || gone[0].Err != nil || len(gone[0].Deleted) != 1 {
			t.Fatal(err, gone)
		}
		c.everywhere(user, "the password of "+user, "orders", kerr.TopicAuthorizationFailed)
	}
	c.rotate()
	seen := written.Load()
	c.eventually("more records", func(context.Context) string {
		if written.Load() > seen || len(ended) > 0 {
			return ""
		}
		return "none"
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("after %d records: %v", written.Load(), err)
	}

	c.nodes.end(syscall.SIGKILL, 2)
	patient := c.as("writer", "the password of writer", kgo.DefaultProduceTopic("orders"))
	for range 30 { // all partitions, also those that broker 3 led
		if err := patient.ProduceSync(t.Context(), kgo.StringRecord("y")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if gone, err := admin.DeleteACLs(t.Context(), allow("writer", "orders")); err != nil || gone[0].Err != nil {
		t.Fatal(err, gone)
	}
	c.everywhere("writer", "the password of writer", "orders", kerr.TopicAuthorizationFailed)
	const found = "the administrator's password was lost"
	c.chronikd(found, "user", "add", "admin", "--config", filepath.Join(c.dir, "node-2", "chronikd.yaml"))
	c.everywhere("admin", found, "orders", nil)
	c.start(2)
	c.everywhere("writer", "the password of writer", "orders", kerr.TopicAuthorizationFailed)
	c.everywhere("admin", found, "orders", nil)
	c.nodes.end(syscall.SIGTERM, 0, 1, 2)
}
