package system

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/shareload"
)

const (
	soakSample  = 5 * time.Second
	soakEvery   = 8 // rounds between two of the money's topics
	soakKeys    = 1000
	soakKeyed   = "keyed" // a compacted topic
	soakMinimum = 180     // samples of a broker's life that is judged
	soakCalm    = 20 * time.Second
	// soakLimit makes the caches of records full after minutes instead of hours.
	soakLimit = "GOMEMLIMIT=192MiB"
)

// soak is a torture of hours, of which one broker's processes live long: faults end the others
// only. Its resources must not grow while it lives, whatever happens to the others.
type soak struct {
	*torture
	begun   time.Time
	mu      sync.Mutex
	samples []sample
	marks   []moment
	keys    [soakKeys]int // the latest acknowledged number of each key
	churned int
	keyed   int // records of keys
}

// sample is what a broker used at one time.
type sample struct {
	at     time.Duration // since the beginning
	broker int
	life   int // the number of its process
	used   [len(resources)]float64
}

// moment is something that happened.
type moment struct {
	at   time.Duration
	what string
}

// resource is what a process may not use more and more of. Judged is the least that was used in a
// part of its life: what it needs for the moment comes and goes.
type resource struct {
	name   string
	metric string // empty: bytes in its directory
	unit   float64
	// slack is what may be added in any case, in units, besides a fourth.
	slack float64
}

var resources = [...]resource{
	{name: "resident memory, MiB", metric: "process_resident_memory_bytes", unit: 1 << 20, slack: 24},
	{name: "heap, MiB", metric: "go_memstats_heap_alloc_bytes", unit: 1 << 20, slack: 12},
	{name: "goroutines", metric: "go_goroutines", unit: 1, slack: 40},
	{name: "open files and connections", metric: "process_open_fds", unit: 1, slack: 40},
	{name: "disk, MiB", unit: 1 << 20, slack: 64},
}

// Three brokers live under every load, with a fault after the other, for the time of CHRONIK_SOAK.
// Their version changes, if CHRONIKD_FORMER names another one, which must have all that the loads
// need. What holds for the torture holds here, and no broker's memory, files, connections,
// goroutines or disk grow without end. CHRONIK_SOAK_REPORT is a directory for the report: soak.md,
// soak.svg, and the heap of the broker that lives long at the end.
func TestSoak(t *testing.T) {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("CHRONIK_SOAK"), "0"))
	must.OK(t, err)
	if d <= 0 {
		t.Skip("make soak runs it")
	}
	seed := fromEnv(t, "CHRONIK_CLUSTER_SEED", rand.Uint64())
	t.Logf("CHRONIK_CLUSTER_SEED=%d repeats this schedule", seed)
	s := &soak{torture: &torture{nodes: newNodes(t, 3), tortureBook: newTortureBook(), random: rand.New(rand.NewPCG(seed, 0))}}
	s.expected = []string{`"logger":"health"`}
	s.faulty, s.took, s.binary = map[int]bool{}, map[string][][3]time.Duration{}, map[int]string{}
	s.set = []string{"chronik.log.scrub.interval.ms=10000", "log.retention.check.interval.ms=10000"}
	s.limits = map[string]*string{"retention.bytes": kadm.StringPtr("4194304")}
	s.env = []string{soakLimit}
	s.apart(seed)
	former := os.Getenv("CHRONIKD_FORMER")
	s.oneAddress("127.0.0.1:9")
	s.set = append(s.set, shareload.Settings()...)
	faults := slices.DeleteFunc(s.possible(), func(f fault) bool { return f.ends || f.clock })
	s.version(former, 0, 1, 2)
	s.launch(0, 1, 2)
	s.await(0, 1, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.begun = time.Now()
	clients := s.load(ctx)
	s.startJobs(ctx, seed)
	for i := range s.seeds {
		for p := range int32(torturePartitions) {
			clients.Go(func() { s.probes.probe(ctx, t, s.client, i, p) })
		}
	}
	s.ledKeyed()
	clients.Go(func() { s.writeKeys(ctx, t) })
	clients.Go(func() { s.churn(ctx, t, rand.New(rand.NewPCG(seed, 1))) })
	clients.Go(func() { s.sample(ctx) })
	money := s.startMoney(ctx, seed)
	s.inSync()
	s.goOn("the start")
	for part, parts := 0, 2; part < parts; part++ {
		if part > 0 && former != "" {
			s.roll("the former version", former)
		}
		s.roll("this version", "")
		end := s.begun.Add(d * time.Duration(part+1) / time.Duration(parts))
		for n := 0; n == 0 || time.Now().Before(end) && !t.Failed(); n++ {
			f := faults[s.random.IntN(len(faults))]
			s.note(f.name)
			t.Run(fmt.Sprintf("%d: %s", n+1, f.name), func(t *testing.T) { s.round(t, f) })
			if t.Failed() {
				break
			}
			s.forget()
			s.jobs.forget()
			s.compareKeys()
			pause(t.Context(), soakCalm)
			if n%soakEvery == soakEvery-1 {
				money.end(t)
				money = s.startMoney(ctx, seed+uint64(n))
			}
		}
	}
	if !t.Failed() {
		money.end(t)
		s.table()
	}
	growth := s.growth()
	s.publish(d, seed, growth)
	for _, g := range growth {
		if g.late > g.bound {
			t.Errorf("broker %d, process %d: %s: %.0f early in its life, %.0f late, at most %.0f is allowed",
				g.broker+1, g.life, resources[g.resource].name, g.early, g.late, g.bound)
		}
	}
	if !t.Failed() {
		s.judge(t, stop, clients)
	}
}

func (s *soak) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = append(s.marks, moment{time.Since(s.begun), what})
}

func (s *soak) version(binary string, which ...int) {
	for _, i := range which {
		s.binary[i] = binary
	}
}

// round orders the brokers so that a fault ends the first one last of all, which is never.
func (s *soak) round(t *testing.T, f fault) {
	hurt := f.hurt
	f.hurt = func(c *torture, order []int) { hurt(c, append(without(order, 0), 0)) }
	s.torture.round(t, f)
}

// roll restarts one broker after the other with a binary.
func (s *soak) roll(what, binary string) {
	s.note("every broker runs " + what)
	s.mayRefuse(false)
	for _, i := range s.random.Perm(len(s.seeds)) {
		s.end(syscall.SIGTERM, i)
		s.version(binary, i)
		s.launch(i)
		s.await(i)
		s.inSync()
		s.goOn("a broker runs " + what)
	}
}

// money is a load of transactions with topics of their own.
type money struct {
	*transfers
	live   *follower
	movers *sync.WaitGroup
	stop   func()
}

func (s *soak) startMoney(ctx context.Context, seed uint64) money {
	ctx, stop := context.WithCancel(ctx)
	m := money{newTransfers(s.t, strings.Join(s.seeds, ","), s.dialer()...), nil, &sync.WaitGroup{}, stop}
	m.live = m.follow(ctx, s.t)
	t := s.t // each round has another one
	for id := range movers {
		m.movers.Go(func() { m.move(ctx, t, id, rand.New(rand.NewPCG(seed, uint64(id+1)))) })
	}
	return m
}

// end ends the load, judges all its transactions, and deletes its topics.
func (m money) end(t *testing.T) {
	t.Helper()
	defer m.stop()
	m.ending.Store(true)
	m.movers.Wait()
	m.live.catchUp(t)
	if problems := m.live.view.Problems(true); len(problems) > 0 {
		t.Errorf("transactions:\n%s", strings.Join(problems[:min(10, len(problems))], "\n"))
	}
	m.stop()
	m.live.done.Wait()
	cl, err := m.connect()
	must.OK(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	_, err = kadm.NewClient(cl).DeleteTopics(ctx, m.topics...)
	must.OK(t, err)
}

func (s *soak) ledKeyed() {
	s.t.Helper()
	cl, err := s.client()
	must.OK(s.t, err)
	defer cl.Close()
	configs := map[string]*string{"cleanup.policy": kadm.StringPtr("compact"), "segment.ms": kadm.StringPtr("10000"),
		"min.cleanable.dirty.ratio": kadm.StringPtr("0.1")}
	s.eventually("create "+soakKeyed, func(ctx context.Context) string {
		_, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 3, configs, soakKeyed)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err.Error()
		}
		return ""
	})
}

// writeKeys writes a number for one key after the other.
func (s *soak) writeKeys(ctx context.Context, t *testing.T) {
	cl, err := s.client(kgo.AlwaysRetryEOF(), kgo.ProducerLinger(0), kgo.DefaultProduceTopic(soakKeyed))
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	for n := 1; ctx.Err() == nil; n++ {
		var records []*kgo.Record
		for k := range 10 {
			records = append(records, &kgo.Record{Key: fmt.Append(nil, (n*10+k)%soakKeys), Value: fmt.Append(nil, n)})
		}
		results := cl.ProduceSync(ctx, records...)
		s.mu.Lock()
		for k, r := range results {
			if r.Err == nil {
				s.keys[(n*10+k)%soakKeys] = n
				s.keyed++
			}
		}
		s.mu.Unlock()
		pause(ctx, 50*time.Millisecond)
	}
}

// compareKeys reads the compacted topic: each key has the number that was acknowledged, or a later
// one.
func (s *soak) compareKeys() {
	s.t.Helper()
	s.mu.Lock()
	want := s.keys
	s.mu.Unlock()
	cl, err := s.client(kgo.AlwaysRetryEOF(), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{soakKeyed: {0: kgo.NewOffset().AtStart()}}))
	must.OK(s.t, err)
	defer cl.Close()
	var have [soakKeys]int
	s.eventually("the keys", func(ctx context.Context) string {
		for r := range cl.PollFetches(ctx).RecordsAll() {
			var key, n int
			if _, err := fmt.Sscan(string(r.Key)+" "+string(r.Value), &key, &n); err != nil {
				return fmt.Sprintf("offset %d: %q=%q", r.Offset, r.Key, r.Value)
			}
			have[key] = max(have[key], n)
		}
		for k := range want {
			if have[k] < want[k] {
				return fmt.Sprintf("key %d has %d, and %d was acknowledged", k, have[k], want[k])
			}
		}
		return ""
	})
}

// churn makes and removes what brokers keep for a while: clients, topics, groups, producers.
func (s *soak) churn(ctx context.Context, t *testing.T, random *rand.Rand) {
	for ctx.Err() == nil {
		if err := s.churnOnce(ctx, uniqueName("churn"), random.IntN(len(s.seeds))); err == nil {
			s.mu.Lock()
			s.churned++
			s.mu.Unlock()
		} else if t.Failed() {
			return
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// churnOnce returns an error if it could not remove everything: a fault was in the way, and the
// name remains.
func (s *soak) churnOnce(ctx context.Context, name string, through int) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cl, err := s.client(kgo.SeedBrokers(s.seeds[through]), kgo.AlwaysRetryEOF(), kgo.ClientID(name), kgo.DefaultProduceTopic(name),
		kgo.ProducerLinger(0), kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeTopics(name), kgo.ConsumerGroup(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	admin := kadm.NewClient(cl)
	_, err = admin.CreateTopic(ctx, 3, 3, nil, name)
	if err == nil {
		err = cl.ProduceSync(ctx, &kgo.Record{Value: []byte(name)}).FirstErr()
	}
	for read := 0; err == nil && read == 0; err = ctx.Err() {
		read = cl.PollFetches(ctx).NumRecords()
	}
	if err == nil {
		err = cl.CommitUncommittedOffsets(ctx)
	}
	for _, list := range []func() error{
		func() error { _, err := admin.ListGroups(ctx); return err },
		func() error { _, err := admin.DescribeGroups(ctx, name); return err },
		func() error { _, err := admin.DescribeTopicConfigs(ctx, name); return err },
		func() error { _, err := admin.ListEndOffsets(ctx, name); return err },
	} {
		if err == nil {
			err = list()
		}
	}
	cl.LeaveGroup()
	for ctx.Err() == nil { // whatever went wrong above
		_, groupErr := admin.DeleteGroups(ctx, name)
		_, topicErr := admin.DeleteTopics(ctx, name)
		if groupErr == nil && topicErr == nil {
			break
		}
		pause(ctx, time.Second)
	}
	return errors.Join(err, ctx.Err())
}

// sample notes what the brokers use.
func (s *soak) sample(ctx context.Context) {
	lives, of := make([]int, len(s.seeds)), make([]float64, len(s.seeds))
	for ctx.Err() == nil {
		for i := range s.seeds {
			page, err := s.get(i, "/metrics")
			if err != nil {
				continue // it is down, or paused
			}
			parser := expfmt.NewTextParser(model.UTF8Validation)
			all, err := parser.TextToMetricFamilies(bytes.NewReader(page))
			if err != nil {
				s.fail("broker %d: /metrics: %v", i+1, err)
				continue
			}
			one := func(name string) float64 {
				m := all[name].GetMetric()
				if len(m) == 0 {
					return 0
				}
				return m[0].GetGauge().GetValue()
			}
			if start := one("process_start_time_seconds"); start != of[i] {
				of[i] = start
				lives[i]++
			}
			x := sample{at: time.Since(s.begun), broker: i, life: lives[i]}
			for k, r := range resources {
				value := one(r.metric)
				if r.metric == "" {
					value = float64(bytesBelow(filepath.Join(s.dirs[i], "d")))
				}
				x.used[k] = value / r.unit
			}
			s.mu.Lock()
			s.samples = append(s.samples, x)
			s.mu.Unlock()
		}
		pause(ctx, soakSample)
	}
}

// bytesBelow returns the bytes of all files below a directory that exist meanwhile.
func bytesBelow(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // it was removed
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// grown is how much more of a resource a process used late in its life than early.
type grown struct {
	broker, life, resource int
	lasted                 time.Duration
	early, late, bound     float64
}

// growth compares the second quarter of each long life with its last one.
func (s *soak) growth() (all []grown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type of struct{ broker, life int }
	lives := map[of][]sample{}
	for _, x := range s.samples {
		lives[of{x.broker, x.life}] = append(lives[of{x.broker, x.life}], x)
	}
	for _, l := range slices.SortedFunc(maps.Keys(lives), func(a, b of) int {
		return cmp.Or(cmp.Compare(a.broker, b.broker), cmp.Compare(a.life, b.life))
	}) {
		life := lives[l]
		if len(life) < soakMinimum {
			continue
		}
		for k, r := range resources {
			g := grown{broker: l.broker, life: l.life, resource: k, lasted: life[len(life)-1].at - life[0].at,
				early: least(life[len(life)/4:len(life)/2], k), late: least(life[len(life)*3/4:], k)}
			g.bound = g.early*1.25 + r.slack
			all = append(all, g)
		}
	}
	return all
}

func least(life []sample, resource int) float64 {
	return slices.MinFunc(life, func(a, b sample) int { return cmp.Compare(a.used[resource], b.used[resource]) }).used[resource]
}

// publish writes the report.
func (s *soak) publish(d time.Duration, seed uint64, growth []grown) {
	dir := os.Getenv("CHRONIK_SOAK_REPORT")
	if dir == "" {
		return
	}
	must.OK(s.t, os.MkdirAll(dir, 0o755))
	if heap, err := s.get(0, "/debug/pprof/heap"); err == nil {
		must.OK(s.t, os.WriteFile(filepath.Join(dir, "heap.pb.gz"), heap, 0o644))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	acked, late := 0, 0
	for p := range s.judged {
		acked += s.judged[p].acked + len(s.acked[p])
		late += s.judged[p].late
	}
	rounds := 0
	for _, took := range s.took {
		rounds += len(took)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s, seed %d, %v of %v, %d faults. %d records were acknowledged, %d of them after consumers had read them; "+
		"%d numbers of %d keys were written; %d topics, groups and clients came and went. Verdict: %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), seed, time.Since(s.begun).Round(time.Second), d,
		rounds, acked, late, s.keyed, soakKeys, s.churned,
		map[bool]string{false: "nothing was lost, twice or out of order", true: "FAILED"}[s.t.Failed()])
	text.WriteString("| broker | process | lived | resource | early | late | bound |\n|---|---|---|---|---|---|---|\n")
	for _, g := range growth {
		fmt.Fprintf(&text, "| %d | %d | %v | %s | %.0f | %.0f | %.0f |\n", g.broker+1, g.life, g.lasted.Round(time.Second),
			resources[g.resource].name, g.early, g.late, g.bound)
	}
	must.OK(s.t, os.WriteFile(filepath.Join(dir, "soak.md"), []byte(text.String()), 0o644))
	must.OK(s.t, os.WriteFile(filepath.Join(dir, "soak.svg"), []byte(s.plot()), 0o644))
}

// plot draws each resource of all brokers over time. Vertical lines are faults.
func (s *soak) plot() string {
	const width, height, left, gap = 900.0, 120.0, 60.0, 34.0
	colors := [...]string{"#1f77b4", "#d62728", "#2ca02c"}
	end := time.Since(s.begun)
	x := func(at time.Duration) float64 { return left + (width-left)*float64(at)/float64(end) }
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="11" fill="#777">`+"\n",
		width+10, (height+gap)*float64(len(resources))+20)
	for k, r := range resources {
		top, highest := float64(k)*(height+gap)+gap-10, 1.0
		for _, a := range s.samples {
			highest = max(highest, a.used[k])
		}
		fmt.Fprintf(&out, `<text x="%g" y="%g">%s, at most %.0f</text>`+"\n", left, top-5, r.name, highest)
		fmt.Fprintf(&out, `<path d="M%g %gV%gH%g" fill="none" stroke="#777"/>`+"\n", left, top, top+height, width)
		for _, m := range s.marks {
			color := "#7772"
			if strings.HasPrefix(m.what, "every broker") {
				color = "#d627288c"
			}
			fmt.Fprintf(&out, `<path d="M%.1f %gv%g" stroke="%s"/>`+"\n", x(m.at), top, height, color)
		}
		for i := range s.seeds {
			life, line := 0, ""
			for _, a := range s.samples {
				if a.broker != i {
					continue
				}
				how := "L"
				if a.life != life {
					how, life = "M", a.life
				}
				line += fmt.Sprintf("%s%.1f %.1f", how, x(a.at), top+height*(1-a.used[k]/highest))
			}
			fmt.Fprintf(&out, `<path d="%s" fill="none" stroke="%s"/>`+"\n", line, colors[i%len(colors)])
		}
	}
	fmt.Fprintf(&out, `<text x="%g" y="%g">%v; blue, red and green: brokers 1, 2 and 3; gray lines: faults; `+
		"red ones: restarts with another version</text>\n</svg>\n",
		left, (height+gap)*float64(len(resources))+12, end.Round(time.Minute))
	return out.String()
}
