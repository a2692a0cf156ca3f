package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/ports"
)

// oneAddress gives each broker a listener that forwards, and all of them one address, which they
// advertise.
func (c *nodes) oneAddress(advertise string) {
	c.t.Helper()
	c.one = advertise
	for i := range c.seeds {
		host, _, err := net.SplitHostPort(c.seeds[i])
		if err != nil {
			c.t.Fatal(err)
		}
		at := net.JoinHostPort(host, "9094")
		if c.net == nil {
			if at, err = ports.Loopback(); err != nil {
				c.t.Fatal(err)
			}
		}
		c.forwards = append(c.forwards, at)
	}
}

// listeners writes a broker's configuration, and returns the arguments that name it.
func (c *nodes) listeners(i int) []string {
	if c.one == "" {
		return nil
	}
	file := filepath.Join(c.dirs[i], "listeners.yaml")
	text := fmt.Sprintf("listeners:\n- name: default\n- {name: one, listen: %q, route: forward, advertise: %q}\n", c.forwards[i], c.one)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return []string{"--config", file}
}

// next connects to one broker after the other, as a balancer does: one that refuses is not running.
func (c *nodes) next(ctx context.Context) (conn net.Conn, err error) {
	for range c.forwards {
		at := c.forwards[int(c.balanced.Add(1))%len(c.forwards)]
		if c.net != nil {
			conn, err = c.net.dial(ctx, len(c.seeds), "tcp", at)
		} else {
			conn, err = new(net.Dialer).DialContext(ctx, "tcp", at)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return conn, err
}

// through returns a client that knows only the one address.
func (c *nodes) through(opts ...kgo.Opt) (*kgo.Client, error) {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr != c.one {
			return nil, fmt.Errorf("the client dials %s, and knows only %s", addr, c.one)
		}
		return c.next(ctx)
	}
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.one), kgo.Dialer(dial)}, opts...)...)
}

// balancer is a TCP balancer: it passes the bytes of each connection to one of the brokers.
type balancer struct {
	ln net.Listener
	c  *nodes

	mu   sync.Mutex
	open map[net.Conn]struct{}
	work sync.WaitGroup
}

func startBalancer(t *testing.T) *balancer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{ln: ln, open: map[net.Conn]struct{}{}}
	t.Cleanup(func() {
		_ = ln.Close()
		b.mu.Lock()
		for conn := range b.open {
			_ = conn.Close()
		}
		b.mu.Unlock()
		b.work.Wait()
	})
	return b
}

func (b *balancer) serve(c *nodes) {
	b.c = c
	b.work.Go(func() {
		for {
			client, err := b.ln.Accept()
			if err != nil {
				return
			}
			b.work.Go(func() { b.pass(client) })
		}
	})
}

// pass ends both connections when either end has.
func (b *balancer) pass(client net.Conn) {
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	broker, err := b.c.next(ctx)
	cancel()
	if err != nil {
		return
	}
	defer broker.Close()
	b.mu.Lock()
	b.open[client], b.open[broker] = struct{}{}, struct{}{}
	b.mu.Unlock()
	var half sync.WaitGroup
	half.Go(func() {
		_, _ = io.Copy(broker, client) // it ends with either
		_ = broker.Close()
	})
	_, _ = io.Copy(client, broker)
	_ = client.Close()
	half.Wait()
	b.mu.Lock()
	delete(b.open, client)
	delete(b.open, broker)
	b.mu.Unlock()
}

// Clients that know one address, that of a TCP balancer before three brokers, produce, consume in
// groups and move amounts in transactions while each broker is killed. No acknowledged record is
// lost or in a log twice, the order of each partition is kept, groups continue, and transactions
// are whole.
func TestOneAddressWhileBrokersAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections and sessions most of the time
	b, seed := startBalancer(t), fromEnv(t, "CHRONIK_CLUSTER_SEED", rand.Uint64())
	c := &torture{nodes: newNodes(t, 3), tortureBook: newTortureBook(), random: rand.New(rand.NewPCG(seed, 0)),
		took: map[string][][3]time.Duration{}}
	c.expected = []string{`"logger":"health"`, "requests of clients cannot be passed"}
	c.oneAddress(b.ln.Addr().String())
	b.serve(c.nodes)
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	client := func(opts ...kgo.Opt) (*kgo.Client, error) {
		return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.one)}, opts...)...)
	}
	for i := range c.seeds {
		c.admins = append(c.admins, c.admin(i))
	}
	cl, err := client(kgo.MetadataMinAge(10 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	for _, topic := range []string{tortureTopic, tortureAlone} {
		c.eventually("create the topics", func(ctx context.Context) string {
			if _, err := admin.CreateTopic(ctx, torturePartitions, 3, nil, topic); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	c.names(admin)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for id := range 3 {
		clients.Go(func() { c.produce(ctx, t, client, id) })
	}
	clients.Go(func() { c.consume(ctx, t, client, "") })
	clients.Go(func() { c.consume(ctx, t, client, "2") })
	clients.Go(func() { c.commit(ctx, t, client) })
	l := newTransfers(t, c.one)
	live := l.follow(ctx, t)
	var moving sync.WaitGroup
	for id := range 2 {
		moving.Go(func() { l.move(ctx, t, id, rand.New(rand.NewPCG(seed, uint64(id+1)))) })
	}
	c.inSync()
	c.goOn("the start")
	for _, i := range c.random.Perm(3) {
		l.progress(t, 1)
		c.end(syscall.SIGKILL, i)
		c.goOn(fmt.Sprintf("the end of broker %d", i+1))
		l.progress(t, 1)
		c.launch(i)
		c.await(i)
		c.inSync()
		c.goOn(fmt.Sprintf("the return of broker %d", i+1))
	}
	l.ending.Store(true)
	moving.Wait()
	live.catchUp(t)
	if problems := live.view.Problems(true); len(problems) > 0 {
		t.Errorf("transactions, seed %d:\n%s", seed, strings.Join(problems[:min(10, len(problems))], "\n"))
	}
	stop()
	clients.Wait()
	c.readsWhatWasSeen(t, client)
	c.commitsAreKept()
	c.end(syscall.SIGTERM, 0, 1, 2)
	c.sameLogs(t, c.dirs)
	c.report(t)
}

// names checks that all brokers have the one address.
func (c *torture) names(admin *kadm.Client) {
	c.t.Helper()
	c.eventually("the addresses", func(ctx context.Context) string {
		m, err := admin.BrokerMetadata(ctx)
		if err != nil {
			return err.Error()
		}
		for _, b := range m.Brokers {
			if at := fmt.Sprintf("%s:%d", b.Host, b.Port); at != c.one {
				c.t.Fatalf("broker %d is at %s instead of %s", b.NodeID, at, c.one)
			}
		}
		if len(m.Brokers) < 3 {
			return fmt.Sprintf("%d brokers", len(m.Brokers))
		}
		return ""
	})
}

// Each broker lists the groups of all through its front, at the same time as the others do. None
// waits for another one that waits for it.
func TestEachFrontListsTheGroupsOfAll(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	b := startBalancer(t)
	c := &torture{nodes: newNodes(t, 3), tortureBook: newTortureBook()}
	c.oneAddress(b.ln.Addr().String())
	b.serve(c.nodes)
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	const clients, lists = 12, 20
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range lists { // each over a connection of its own, which the balancer gives to the next front
				cl, err := kgo.NewClient(kgo.SeedBrokers(c.one))
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), startTime)
				resp, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, cl)
				cancel()
				cl.Close()
				if err != nil {
					t.Error(err)
					return
				}
				if resp.ErrorCode != 0 {
					t.Error(kerr.ErrorForCode(resp.ErrorCode))
				}
			}
		})
	}
	all.Wait()
}
