package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	backoff "github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

// nodes are the brokers of a cluster in a test.
type nodes struct {
	t     *testing.T
	name  string
	seeds []string
	ports []string // the admin ports' addresses
	dirs  []string
	run   []*process // nil: not running
	// voters is how many of them are seeds.
	voters int
	// observers is how many other members the metadata has.
	observers int
	net       network // nil: brokers and clients run on this machine's loopback
	// faulty brokers run on a disk that fails on command.
	faulty map[int]bool
	// expected are texts of errors that brokers may log.
	expected []string
	// ahead is by how much the clocks of brokers are ahead of this machine's. Such a broker runs
	// the binary skewed; see scripts/skewed.sh.
	ahead  map[int]time.Duration
	binary map[int]string // of brokers that run another one than the others
	skewed string
	set    []string         // settings of all brokers
	own    map[int][]string // those of single ones
	env    []string         // variables of all brokers
	// holders is how many of them hold logs, the first ones. The others only vote.
	holders int
	// paused: brokers are stopped for seconds and continue, and report that they did not respond.
	paused bool
	// one is the address of all brokers, empty for none: each has a listener that forwards at one
	// of forwards. balanced counts the connections.
	one      string
	forwards []string
	balanced atomic.Int64
}

// network is where the processes of a cluster run, each broker on the host of its index, and the
// clients on the next one.
type network interface {
	// at runs a function that starts a process on a host.
	at(host int, start func() error) error
	dial(ctx context.Context, from int, network, addr string) (net.Conn, error)
}

// threeNodes starts three brokers, and returns all their indices.
func threeNodes(t *testing.T) (*nodes, []int) {
	c, all := newNodes(t, 3), []int{0, 1, 2}
	c.expected = othersEnd
	c.launch(all...)
	c.await(all...)
	return c, all
}

// newNodes prepares brokers that are all seeds, with ids from 1 on.
func newNodes(t *testing.T, n int) *nodes {
	t.Helper()
	c := &nodes{t: t, name: "test", run: make([]*process, n), voters: n, holders: n}
	var free []string
	for len(free) < 2*n {
		addr, err := ports.Loopback()
		if err != nil {
			t.Fatal(err)
		}
		free = append(free, addr)
	}
	c.seeds, c.ports = free[:n], free[n:]
	for range n {
		c.dirs = append(c.dirs, t.TempDir())
	}
	t.Cleanup(func() {
		for i, p := range c.run {
			if p != nil {
				_ = p.end(syscall.SIGKILL)
				if t.Failed() {
					t.Logf("broker %d:\n%s", i+1, p.logged())
				}
			}
		}
	})
	return c
}

// launch starts brokers, by their index, and does not wait.
func (c *nodes) launch(which ...int) {
	c.t.Helper()
	for _, i := range which {
		var prog program
		prog.name = c.binary[i]
		if c.faulty[i] {
			prog.name, prog.console = "chronikd-faulty", true
		}
		if c.net != nil {
			prog.start = func(start func() error) error { return c.net.at(i, start) }
		}
		args := []string{"--data-dir", "d", "--listen", c.seeds[i], "--admin-listen", c.ports[i]}
		for _, setting := range append([]string{"cluster.name=" + c.name, fmt.Sprint("node.id=", i+1),
			fmt.Sprint("broker.rack=", i+1), "cluster.seeds=" + strings.Join(c.seeds[:c.voters], ",")}, c.set...) {
			args = append(args, "--set", setting)
		}
		for _, setting := range c.own[i] {
			args = append(args, "--set", setting)
		}
		args = append(args, c.listeners(i)...)
		if i >= c.holders {
			args = append(args, "--set", "log.dirs=none")
		}
		env := slices.Clone(c.env)
		if ahead, ok := c.ahead[i]; ok {
			prog.name, env = c.skewed, append(env, fmt.Sprint("CLOCK_AHEAD=", int64(ahead.Seconds())))
		}
		p, err := prog.launch(c.dirs[i], env, args...)
		if err != nil {
			c.t.Fatal(err)
		}
		c.run[i] = p
	}
}

// await waits until brokers serve clients.
func (c *nodes) await(which ...int) {
	c.t.Helper()
	for _, i := range which {
		if err := c.run[i].await(); err != nil {
			c.t.Fatalf("broker %d: %v", i+1, err)
		}
	}
}

// end sends a signal to brokers and waits until they have ended. With SIGTERM, they must end well,
// in endTime.
func (c *nodes) end(sig syscall.Signal, which ...int) {
	c.t.Helper()
	for _, i := range which {
		if err := c.run[i].cmd.Process.Signal(sig); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, i := range which {
		var err error
		select {
		case err = <-c.run[i].done:
		case <-time.After(endTime):
			c.dump(i)
			err = errors.Join(fmt.Errorf("it runs %v after %v", endTime, sig), c.run[i].end(syscall.SIGKILL))
			<-c.run[i].done
		}
		if c.run[i].done <- err; err != nil && sig == syscall.SIGTERM {
			c.t.Fatalf("broker %d ended with %v:\n%s", i+1, err, c.run[i].logged())
		}
		lines := slices.DeleteFunc(c.run[i].errors(), func(line string) bool {
			// A controller that has ended, or a busy machine, confirms no heartbeats for a while,
			// and its changes come late.
			return strings.Contains(line, "does not confirm its heartbeats") || strings.Contains(line, "its metadata stand still") ||
				c.paused && strings.Contains(line, `"check":"responding"`) ||
				slices.ContainsFunc(c.expected, func(text string) bool { return strings.Contains(line, text) })
		})
		if len(lines) > 0 {
			c.t.Errorf("broker %d logs errors: %q", i+1, lines)
		}
		c.run[i] = nil
	}
}

// client returns a client of all brokers, unless the options say something else.
func (c *nodes) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append([]kgo.Opt{kgo.SeedBrokers(c.seeds...)}, c.dialer()...), opts...)...)
}

// dialer returns how clients connect.
func (c *nodes) dialer() []kgo.Opt {
	if c.net == nil {
		return nil
	}
	return []kgo.Opt{kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		return c.net.dial(ctx, len(c.seeds), network, addr)
	})}
}

// admin returns a client of one broker.
func (c *nodes) admin(i int) *kadm.Client {
	c.t.Helper()
	cl, err := c.client(kgo.SeedBrokers(c.seeds[i]), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// endTime bounds the time of a stop: moving leaderships, a drain, and what disks need to close.
const endTime = 3 * time.Minute

// dump writes the goroutines of brokers to files, for someone who looks for what they wait for.
func (c *nodes) dump(which ...int) {
	c.t.Helper()
	for _, i := range which {
		if c.run[i] == nil {
			continue
		}
		text, err := c.goroutines(i)
		if err == nil {
			name := filepath.Join(os.TempDir(), fmt.Sprintf("chronikd-%d-goroutines-%d", i+1, time.Now().UnixNano()))
			err = os.WriteFile(name, text, 0o600)
			c.t.Logf("broker %d: its goroutines are in %s", i+1, name)
		}
		if err != nil {
			c.t.Logf("broker %d does not show its goroutines: %v", i+1, err)
		}
	}
}

// goroutines returns what the goroutines of a broker do.
func (c *nodes) goroutines(i int) ([]byte, error) { return c.get(i, "/debug/pprof/goroutine?debug=2") }

// get returns a page of a broker's admin port.
func (c *nodes) get(i int, page string) ([]byte, error) {
	// The context of the test may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	get := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if c.net != nil {
		get.Transport = &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return c.net.dial(ctx, i, network, addr)
			}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.ports[i]+page, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := get.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// eventually asks until ok returns "", within a minute. Otherwise it fails with what ok returned
// before the time was over, and dumps the goroutines of all brokers.
func (c *nodes) eventually(what string, ok func(ctx context.Context) string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), startTime)
	defer cancel()
	// Most waits are short. In a long one, what is asked would take half a processor all the time.
	asked := backoff.Backoff{First: 20 * time.Millisecond, Most: time.Second}
	why := ""
	for n := 1; ; n++ {
		text := ok(ctx)
		if text == "" {
			return
		}
		if ctx.Err() == nil || why == "" { // afterwards, ok can ask nothing and says so
			why = text
		}
		if ctx.Err() != nil {
			for i := range c.run {
				c.dump(i)
			}
			c.t.Fatalf("%s: %s", what, why)
		}
		pause(ctx, asked.After(n))
	}
}

// sees waits until a broker shows these brokers and a leader for each partition of a topic; the
// leaders must be among them. It returns the metadata leader's node id.
func (c *nodes) sees(i int, brokers []int, topic string, partitions int) (controller int32) {
	c.t.Helper()
	admin := c.admin(i)
	c.eventually(fmt.Sprintf("metadata of broker %d", i+1), func(ctx context.Context) string {
		m, err := admin.Metadata(ctx, slices.DeleteFunc([]string{topic}, func(s string) bool { return s == "" })...)
		if err != nil {
			return err.Error()
		}
		var want, have []string
		for _, n := range brokers {
			want = append(want, fmt.Sprint(n+1, " ", c.seeds[n]))
		}
		for _, b := range m.Brokers {
			have = append(have, fmt.Sprint(b.NodeID, " ", b.Host, ":", b.Port))
		}
		slices.Sort(have)
		if !slices.Equal(want, have) {
			return fmt.Sprintf("brokers %q, want %q", have, want)
		}
		led := 0
		for _, p := range m.Topics[topic].Partitions {
			if p.Err == nil && slices.Contains(brokers, int(p.Leader)-1) {
				led++
			}
		}
		if led != partitions {
			return fmt.Sprintf("%d of %d partitions have a leader: %+v", led, partitions, m.Topics[topic])
		}
		controller = m.Controller
		return ""
	})
	return controller
}

// waits waits until a broker's health says that it waits for something.
func (c *nodes) waits(i int, what string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("health of broker %d", i+1), func(ctx context.Context) string {
		text, ready := c.ready(ctx, c.ports[i])
		if ready || !strings.Contains(text, what) {
			return text
		}
		return ""
	})
}

// isReady waits until a broker reports that it is ready.
func (c *nodes) isReady(i int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("readiness of broker %d", i+1), func(ctx context.Context) string {
		text, ready := c.ready(ctx, c.ports[i])
		if ready {
			return ""
		}
		return text
	})
}

// ready returns the text of a broker's health, and whether it is ready.
func (c *nodes) ready(ctx context.Context, admin string) (text string, ready bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", http.NoBody)
	if err != nil {
		return err.Error(), false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error(), false
	}
	defer resp.Body.Close()
	p, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error(), false
	}
	return string(p), resp.StatusCode == http.StatusOK
}

func TestThreeBrokersFormACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections and sessions most of the time
	c, all := threeNodes(t)
	const partitions = 6
	if _, err := c.admin(0).CreateTopic(t.Context(), partitions, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		c.sees(i, all, "t", partitions)
	}
	c.write("t", partitions)

	t.Run("every broker describes the metadata quorum", func(t *testing.T) {
		for _, i := range all {
			c.eventually(fmt.Sprintf("the quorum of broker %d", i+1), func(ctx context.Context) string { return c.quorum(ctx, i) })
		}
	})
	t.Run("every broker refuses to unregister", func(t *testing.T) {
		for _, i := range all {
			c.refusesToUnregister(t, i, 99, kerr.BrokerIDNotRegistered)
			c.refusesToUnregister(t, i, 1, kerr.InvalidRequest) // it is alive
		}
	})
	t.Run("a follower of the metadata is killed", func(t *testing.T) {
		leader := int(c.sees(0, all, "t", partitions)) - 1
		c.restart(syscall.SIGKILL, (leader+1)%3)
	})
	t.Run("the metadata leader is killed", func(t *testing.T) {
		leader := int(c.sees(0, all, "t", partitions)) - 1
		c.restart(syscall.SIGKILL, leader)
	})
	t.Run("the metadata leader is stopped", func(t *testing.T) {
		leader := int(c.sees(0, all, "t", partitions)) - 1
		p := c.run[leader]
		c.restart(syscall.SIGTERM, leader)
		if !strings.Contains(p.logged(), "metadata leadership handed over") {
			t.Errorf("broker %d did not hand over the metadata:\n%s", leader+1, p.logged())
		}
	})
	t.Run("all are restarted", func(*testing.T) {
		c.end(syscall.SIGTERM, all...)
		c.launch(all...)
		c.await(all...)
	})
	t.Run("a broker loses its metadata directory", func(t *testing.T) {
		c.end(syscall.SIGTERM, 2)
		if err := os.RemoveAll(filepath.Join(c.dirs[2], "d", "metadata")); err != nil {
			t.Fatal(err)
		}
		c.launch(2)
		c.await(2)
		c.sees(2, all, "t", partitions)
		c.isReady(2)
	})
	t.Run("all lose their directories, one after the other", func(t *testing.T) {
		for _, i := range all {
			c.end(syscall.SIGKILL, i)
			if err := os.RemoveAll(filepath.Join(c.dirs[i], "d", "metadata")); err != nil {
				t.Fatal(err)
			}
			c.launch(i)
			c.await(i)
			c.isReady(i) // all that an operator waits for
		}
		c.eventually("the quorum", func(ctx context.Context) string { return c.quorum(ctx, 0) })
	})
	t.Run("a broker alone waits for the others", func(*testing.T) {
		c.end(syscall.SIGTERM, 2)
		c.end(syscall.SIGKILL, 0, 1)
		c.launch(2)
		c.waits(2, "no metadata leader")
		c.end(syscall.SIGTERM, 2)
		c.launch(all...)
		c.await(all...)
	})
	t.Run("all are killed", func(*testing.T) {
		c.end(syscall.SIGKILL, all...)
		c.launch(all...)
		c.await(all...)
	})
	for _, i := range all {
		c.sees(i, all, "t", partitions)
	}
	c.write("t", partitions)
	c.end(syscall.SIGTERM, all...)
}

// quorum returns what is wrong with a broker's answer to DescribeQuorum: all seeds vote and have
// everything.
func (c *nodes) quorum(ctx context.Context, i int) (wrong string) {
	cl, err := c.client(kgo.SeedBrokers(c.seeds[i]))
	if err != nil {
		return err.Error()
	}
	defer cl.Close()
	req := kmsg.NewPtrDescribeQuorumRequest()
	first := []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: first}}
	resp, err := cl.Broker(i+1).RetriableRequest(ctx, req)
	if err != nil {
		return err.Error()
	}
	p := resp.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID < 1 || len(p.CurrentVoters) != c.voters || len(p.Observers) != c.observers {
		return fmt.Sprintf("%+v", p)
	}
	for _, v := range p.CurrentVoters {
		if v.ReplicaID < 1 || v.LogEndOffset < p.HighWatermark || v.LastFetchTimestamp < 0 {
			return fmt.Sprintf("%+v", p)
		}
	}
	return ""
}

func (c *nodes) refusesToUnregister(t *testing.T, i int, which int32, want *kerr.Error) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds[i]))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	resp, err := cl.Broker(i+1).RetriableRequest(t.Context(), &kmsg.UnregisterBrokerRequest{BrokerID: which})
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.(*kmsg.UnregisterBrokerResponse); got.ErrorCode != want.Code || got.ErrorMessage == nil {
		t.Errorf("broker %d unregisters broker %d: %+v", i+1, which, got)
	}
}

// restart ends a broker, waits until the others count it as gone, makes a topic without it, and
// starts it again.
func (c *nodes) restart(sig syscall.Signal, which int) {
	c.t.Helper()
	c.end(sig, which)
	var rest []int
	for i := range c.run {
		if i != which {
			rest = append(rest, i)
		}
	}
	for _, i := range rest {
		c.sees(i, rest, "", 0)
	}
	name := fmt.Sprintf("without-%d-%d", which, sig)
	c.eventually("create a topic", func(ctx context.Context) string {
		_, err := c.admin(rest[0]).CreateTopic(ctx, 2, 1, nil, name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err.Error()
		}
		return ""
	})
	c.sees(rest[1], rest, name, 2)
	c.launch(which)
	c.await(which)
	c.sees(which, []int{0, 1, 2}, name, 2)
}

// write writes a record to each partition of a topic and reads it back.
func (c *nodes) write(topic string, partitions int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), startTime)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(50*time.Millisecond), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	for i := range partitions {
		r := &kgo.Record{Topic: topic, Partition: int32(i), Value: fmt.Append(nil, i)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			c.t.Fatal(err)
		}
		cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {int32(i): kgo.NewOffset().At(r.Offset)}})
	}
	read := map[int32]bool{}
	for len(read) < partitions {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			c.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { read[r.Partition] = bytes.Equal(r.Value, fmt.Append(nil, r.Partition)) })
	}
}

// A cluster is not formed before all seeds answer, and nothing is written until then. A broker that
// waits ends at once when it is asked to, and does not describe the cluster before.
func TestAMissingSeedIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	c.launch(0, 1)
	var complete atomic.Bool // all seeds were started
	var asked sync.WaitGroup
	defer asked.Wait()
	for _, i := range []int{0, 1} {
		c.waits(i, "waiting for seeds: no answer from "+c.seeds[2])
		if err := answer(t.Context(), c.seeds[i]); err != nil {
			t.Errorf("broker %d does not answer ApiVersions: %v", i+1, err)
		}
		c.leadsNothing(i)
		asked.Go(func() {
			if c.describes(i) && !complete.Load() {
				t.Errorf("broker %d answers Metadata", i+1)
			}
		})
		if keys := metadataKeys(t, filepath.Join(c.dirs[i], "d")); keys != 0 {
			t.Errorf("broker %d has metadata of %d bytes", i+1, keys)
		}
	}
	c.end(syscall.SIGTERM, 1)
	complete.Store(true)
	c.launch(1, 2)
	c.await(0, 1, 2)
	asked.Wait()
	c.end(syscall.SIGTERM, 0, 1, 2)
}

// describes reports whether a broker answers a request for metadata. A starting broker lets it wait
// for seconds, and a client would repeat it.
func (c *nodes) describes(i int) bool {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds[i]))
	if err != nil {
		c.t.Error(err)
		return false
	}
	defer cl.Close()
	_, err = cl.SeedBrokers()[0].Request(c.t.Context(), kmsg.NewPtrMetadataRequest())
	return err == nil
}

// leadsNothing writes a record to a broker that starts. It refuses the record on a connection that
// stays: franz-go gives up the records of a connection that ends before its first answer.
func (c *nodes) leadsNothing(i int) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds[i]))
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 7}}}}
	resp, err := cl.SeedBrokers()[0].Request(c.t.Context(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.Partition != 7 || p.ErrorCode != kerr.NotLeaderForPartition.Code {
		c.t.Errorf("broker %d that starts answers %+v", i+1, p)
	}
}

// metadataKeys returns how many bytes of a data directory name the record of the cluster.
func metadataKeys(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "metadata"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		p, err := os.ReadFile(path)
		n += bytes.Count(p, []byte("featureLevel"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWrongClusterNameIsRefused(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	c.launch(0, 1)
	c.name = "other"
	c.launch(2)
	for _, i := range []int{0, 1, 2} {
		p := c.run[i]
		select {
		case err := <-p.done:
			p.done <- err
		case <-time.After(startTime):
			t.Fatalf("broker %d runs:\n%s", i+1, p.logged())
		}
		code, log := p.cmd.ProcessState.ExitCode(), p.logged()
		if code != 2 || !strings.Contains(log, `\"other\"`) || !strings.Contains(log, `\"test\"`) {
			t.Errorf("broker %d: exit code %d:\n%s", i+1, code, log)
		}
	}
}
