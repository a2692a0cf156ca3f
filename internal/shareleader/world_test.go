package shareleader

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// batch is a record batch of a replica. Its records have numbers that no others have.
type batch struct {
	base, last int64
	first      int64 // number of the first record
	gone       bool  // control, or aborted
	at         time.Time
}

// record returns the number of a record.
func (b *batch) record(offset int64) int64 { return b.first + offset - b.base }

// journal is the log of one replica.
type journal struct {
	start, end int64
	batches    []batch
	epochs     epochs.Cache
}

func (j *journal) clone() *journal {
	c := *j
	c.batches, c.epochs = slices.Clone(j.batches), j.epochs.Latter(j.epochs.Len())
	return &c
}

// cut removes what is at or above an offset. A batch that is cut loses all its records.
func (j *journal) cut(end int64) {
	for len(j.batches) > 0 && j.batches[len(j.batches)-1].last >= end {
		end = min(end, j.batches[len(j.batches)-1].base)
		j.batches = j.batches[:len(j.batches)-1]
	}
	j.end, j.start = min(j.end, end), min(j.start, end)
	j.epochs.CutEnd(j.end)
}

// view is what a broker knows of the partition. It implements Log.
type view struct {
	mu     sync.Mutex
	leader int32
	epoch  int32
	log    *journal
	stable int64 // the last stable offset, -1: the end
	fails  error // of ListOffset
}

func (v *view) Leader() (broker, epoch int32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.leader, v.epoch
}

func (v *view) Readable() (replica.Ends, error) { return v.Ends(), nil }

func (v *view) Ends() replica.Ends {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := replica.Ends{LogStart: v.log.start, LastStable: v.log.end, HighWatermark: v.log.end, Ack: v.log.end, LogEnd: v.log.end}
	if v.stable >= 0 {
		e.LastStable = v.stable
	}
	return e
}

func (v *view) Epochs(epoch int32) (epochs.Cache, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if epoch != v.epoch {
		return epochs.Cache{}, replica.ErrFencedEpoch
	}
	return v.log.clone().epochs, nil
}

func (v *view) ListOffset(ts int64, _ int32, _ bool) (storage.Timestamp, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails != nil {
		return storage.Timestamp{}, v.fails
	}
	switch ts {
	case replica.Latest:
		return storage.Timestamp{Offset: v.log.end}, nil
	case replica.Earliest:
		return storage.Timestamp{Offset: v.log.start}, nil
	}
	for _, b := range v.log.batches {
		if b.at.UnixMilli() >= ts {
			return storage.Timestamp{Offset: b.base}, nil
		}
	}
	return storage.Timestamp{Offset: -1}, nil
}

// records returns the numbers of the records of the log.
func (v *view) records() map[int64]bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := map[int64]bool{}
	for _, b := range v.log.batches {
		for at := b.base; at <= b.last; at++ {
			all[b.record(at)] = true
		}
	}
	return all
}

// read returns the batches from an offset on, up to most.
func (v *view) read(from, limit int64, most int) (list []batch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range v.log.batches {
		if b.last >= from && b.base < limit && len(list) < most {
			list = append(list, b)
		}
	}
	return list
}

// broker is a broker of the world.
type broker struct {
	*Leader
	view *view
	park *purgatory.Purgatory
}

// world is a partition of several brokers, with its share coordinator.
type world struct {
	t        testing.TB
	desk     *sharetest.Desk
	brokers  []*broker
	settings Settings
	key      format.Key
	work     sync.WaitGroup
	stood    atomic.Int64 // for how long the process has stood still

	mu      sync.Mutex
	epoch   int32
	leads   int32
	records int64 // numbers given
}

var defaults = Settings{Locks: 200, Deliveries: 5, Lock: 30 * time.Second, Renew: true, Reset: replica.Earliest}

// newWorld returns a world in which broker 0 leads, and the group begins at the offset 0. It must
// be made in a bubble of synctest.
func newWorld(t testing.TB, brokers int, change ...func(*Options)) *world {
	w := &world{t: t, settings: defaults, key: format.Key{Group: "g", Topic: [16]byte{1}}}
	w.desk = sharetest.New(sharestate.Config{}, func([16]byte, int32) int32 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.epoch
	})
	begun := time.Now()
	for i := range brokers {
		b := &broker{park: purgatory.New(), view: &view{log: &journal{}, stable: -1}}
		b.view.log.epochs.Assign(0, 0)
		o := Options{Self: int32(i), Coordinator: w.desk, Memory: coordinator.NewMemoryBudget(64 << 20), Sessions: 100, Park: b.park,
			Go: w.work.Go, Logger: zap.NewNop(), Now: func() time.Duration { return time.Since(begun) + time.Duration(w.stood.Load()) }}
		for _, c := range change {
			c(&o)
		}
		b.Leader = New(o)
		w.brokers = append(w.brokers, b)
	}
	if code := w.desk.Initialize(w.key, 1, -1); code != nil {
		t.Fatal(code)
	}
	return w
}

// close ends all brokers.
func (w *world) close() {
	for _, b := range w.brokers {
		b.Close()
		b.park.Close()
	}
	w.work.Wait()
}

func (w *world) leader() *broker { return w.brokers[w.leads] }

func (b *broker) ring(w *world) {
	b.park.Check(purgatory.Key{Topic: w.key.Topic, Partition: w.key.Partition})
}

// put appends a batch to the leader's log.
func (w *world) put(records int64, gone bool) {
	b := w.leader()
	b.view.mu.Lock()
	j := b.view.log
	j.batches = append(j.batches, batch{base: j.end, last: j.end + records - 1, first: w.records, gone: gone, at: time.Now()})
	j.end += records
	b.view.mu.Unlock()
	w.records += records
	b.ring(w)
}

// skip makes a hole in the leader's log, as compaction does.
func (w *world) skip(offsets int64) {
	b := w.leader()
	b.view.mu.Lock()
	b.view.log.end += offsets
	b.view.mu.Unlock()
}

// trim moves the start of the leader's log.
func (w *world) trim(start int64) {
	b := w.leader()
	b.view.mu.Lock()
	j := b.view.log
	j.start = min(max(start, j.start), j.end)
	j.epochs.CutStart(j.start)
	for len(j.batches) > 0 && j.batches[0].last < j.start {
		j.batches = j.batches[1:]
	}
	b.view.mu.Unlock()
	b.ring(w)
}

// elect elects a broker whose log is that of the leader, or the one with which it led last, without
// some records. The others do not know of it yet.
func (w *world) elect(to int32, own bool, lose int64) {
	of := w.leader().view
	if own {
		of = w.brokers[to].view
	}
	of.mu.Lock()
	j := of.log.clone()
	of.mu.Unlock()
	j.cut(max(0, j.end-lose))
	w.mu.Lock()
	w.epoch++
	epoch := w.epoch
	w.mu.Unlock()
	w.leads = to
	j.epochs.Assign(epoch, j.end)
	b := w.leader()
	b.view.mu.Lock()
	b.view.log, b.view.leader, b.view.epoch = j, to, epoch
	b.view.mu.Unlock()
	b.ring(w)
}

// notify notifies a broker of who leads.
func (w *world) notify(b *broker) {
	leader := w.leader()
	if b == leader {
		return
	}
	b.view.mu.Lock()
	b.view.leader, b.view.epoch = w.leads, w.epoch
	b.view.mu.Unlock()
	b.ring(w)
}

// consumer is a member of the group, with a connection and perhaps a session at a broker.
type consumer struct {
	w    *world
	b    *broker
	id   string
	conn uint64
	s    *Session
	next int32 // epoch
	end  func()
}

var connections uint64

// join opens a session on a new connection.
func (w *world) join(b *broker, id string) *consumer {
	w.t.Helper()
	c := &consumer{w: w, b: b, id: id}
	if code := c.open(); code != nil {
		w.t.Fatalf("no session for %s: %v", id, code)
	}
	return c
}

func (c *consumer) open() *kerr.Error {
	connections++
	c.conn, c.next = connections, 1
	var closed func()
	s, code := c.b.Session(c.w.key.Group, c.id, OpenSession, Client{Connection: c.conn, OnClose: func(f func()) func() bool {
		closed = f
		return func() bool { return true }
	}})
	if c.s = s; s != nil {
		s.Name([]Named{{c.w.key.Topic, c.w.key.Partition}})
	}
	c.end = func() {
		if closed != nil {
			closed()
		}
	}
	return code
}

// partition returns the share partition at the consumer's broker.
func (c *consumer) partition() *Partition {
	p := c.b.Partition(c.w.key, c.b.view, c.w.settings)
	c.s.Use(Named{c.w.key.Topic, c.w.key.Partition}, p)
	return p
}

// taken is what a fetch has acquired.
type taken struct {
	window.Delivery
	records []int64 // their numbers
}

// fetch is a fetch of a consumer. It implements Fetch.
type fetch struct {
	c      *consumer
	queued *Queued
	most   int64
	strict bool
	cut    int // batches to read
	got    func([]taken)

	mu    sync.Mutex
	busy  bool
	again bool
	done  bool
	err   *kerr.Error
	taken []taken
}

// begin begins a fetch.
func (c *consumer) begin(most int64, got func([]taken)) *fetch {
	f := &fetch{c: c, most: most, cut: 4, got: got}
	f.join(c.partition())
	return f
}

// fetch takes what is available now.
func (c *consumer) fetch(most int64) []taken {
	f := c.begin(most, nil)
	synctest.Wait()
	f.stop()
	return f.taken
}

// join joins the queue, and tries. Others may let it try before it has its place.
func (f *fetch) join(p *Partition) {
	f.busy = true
	queued := p.Join(f)
	f.mu.Lock()
	f.queued, f.busy = queued, false
	f.mu.Unlock()
	f.Try()
}

// stop ends the wait.
func (f *fetch) stop() {
	f.mu.Lock()
	f.done = true
	f.mu.Unlock()
	f.queued.Leave()
}

func (f *fetch) Try() {
	f.mu.Lock()
	if f.again = f.busy; f.busy || f.done {
		f.mu.Unlock()
		return
	}
	f.busy = true
	for !f.done {
		f.mu.Unlock()
		done := f.try()
		f.mu.Lock()
		if f.done = f.done || done; !f.again {
			break
		}
		f.again = false
	}
	f.busy = false
	left := f.done
	f.mu.Unlock()
	if left {
		f.queued.Leave()
	}
}

func (f *fetch) try() bool {
	for {
		turn, ok, code := f.queued.Turn(f.most)
		if code != nil {
			f.err = code
			return true
		}
		if !ok {
			return false
		}
		p := f.queued.p
		batches := f.c.b.view.read(turn.From, p.limit(), f.cut)
		t := window.Taking{From: turn.From, Records: turn.Records, Strict: f.strict, BatchSize: 1}
		for _, b := range batches {
			t.Batches = append(t.Batches, window.Batch{Base: b.base, Last: b.last, Gone: b.gone})
		}
		got, _, ok := f.queued.Take(f.c.s, t)
		for _, d := range got {
			one := taken{Delivery: d}
			for at := d.First; at <= d.Last; at++ {
				for _, b := range batches {
					if at >= b.base && at <= b.last {
						one.records = append(one.records, b.record(at))
					}
				}
			}
			f.taken = append(f.taken, one)
		}
		if len(got) > 0 && f.got != nil {
			f.got(f.taken)
		}
		f.queued.End()
		if len(got) > 0 || !ok {
			return true
		}
		if len(batches) == 0 {
			return false
		}
	}
}

// ack acknowledges offsets, and returns a pointer to the result: nil while there is none.
func (c *consumer) ack(first, last int64, by ...window.AckType) *result {
	r := &result{}
	c.partition().Acknowledge(c.s, []window.Ack{{First: first, Last: last, Types: by}}, true, r.set)
	return r
}

// result is the result of an acknowledgement.
type result struct {
	mu   sync.Mutex
	done bool
	code *kerr.Error
}

func (r *result) set(code *kerr.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		panic("answered twice")
	}
	r.done, r.code = true, code
}

// String is "waits", "ok", or the error.
func (r *result) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.done:
		return "waits"
	case r.code == nil:
		return "ok"
	}
	return r.code.Message
}

// show shows what was taken: "0-3:1" is the offsets 0 to 3, delivered for the first time.
func show(list []taken) (s string) {
	for i, x := range list {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprintf("%d-%d:%d", x.First, x.Last, x.Count)
	}
	return s
}
