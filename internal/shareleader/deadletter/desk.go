package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/storage"
)

// Options configure a Desk. All fields are needed, unless noted.
type Options struct {
	Self      int32
	Image     func() *metadata.Image
	Partition func(topic [16]byte, index int32) (*replica.Partition, error)
	Settings  *replica.TopicSettings
	// Prefix is errors.deadletterqueue.topic.name.prefix.
	Prefix string
	// Places are where compressed batches are inflated; nil: they take none.
	Places *share.Places
	// Call sends a request to another broker, whose Desk handles it, and waits for the answer. nil
	// without a cluster.
	Call func(ctx context.Context, broker int32, body []byte) ([]byte, error)
	// Broken is empty in an ordinary build.
	Broken Broken
}

// Desk copies the dead letters of the share partitions of a broker, and serves the topics of dead
// letters whose partitions it leads. Its methods may be called concurrently; Copy and Handle block.
type Desk struct {
	opt   Options
	slots chan struct{} // holds an element for each copy in progress: capacity mostCopiers

	mu    sync.Mutex
	locks map[int64]*lock // by producer id
}

// lock is that of a producer id: one batch of it is under way.
type lock struct {
	held  chan struct{} // has a value while it is held
	users int
}

// mostCopiers is how many batches of copies a broker makes at a time: each is in memory.
const mostCopiers = 32

// New returns a Desk.
func New(opt Options) *Desk {
	return &Desk{opt: opt, slots: make(chan struct{}, mostCopiers), locks: map[int64]*lock{}}
}

// Copier implements shareleader.Letters.
func (d *Desk) Copier(of shareleader.Source) shareleader.Copier {
	return &slotted{d: d, Copier: newCopier(d, of, d.opt.Broken)}
}

// slotted is a Copier that waits until few others are at work.
type slotted struct {
	d *Desk
	*Copier
}

// Copy implements shareleader.Copier.
func (s *slotted) Copy(ctx context.Context, to shareleader.LettersTo, letters []window.Letters) ([]window.Letters, error) {
	select {
	case s.d.slots <- struct{}{}:
		defer func() { <-s.d.slots }()
		return s.Copier.Copy(ctx, to, letters)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refusal is an error that an operator has to mend, with its kind.
type refusal struct {
	error
	reason string
}

// Reason is that of shareleader.ReasonOf.
func (r *refusal) Reason() string { return r.reason }

func (r *refusal) Unwrap() error { return r.error }

func refuse(reason, format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...), reason}
}

// find implements world. The errors say what an operator has to change.
func (d *Desk) find(name string, of [16]byte, partition int32) (Topic, error) {
	img := d.opt.Image()
	t := img.Topic(name)
	switch {
	case strings.HasPrefix(name, "__"):
		return Topic{}, refuse("name", "the topic of dead letters %q has the name of an internal topic", name)
	case !strings.HasPrefix(name, d.opt.Prefix):
		return Topic{}, refuse("name", "the name of the topic of dead letters %q does not begin with errors.deadletterqueue.topic.name.prefix, %q",
			name, d.opt.Prefix)
	case t == nil:
		return Topic{}, refuse("no_topic", "the topic of dead letters %q does not exist: create it", name)
	case t.ID == of:
		return Topic{}, refuse("own_topic", "the topic of dead letters %q is the topic that the group reads", name)
	}
	set := d.opt.Settings.Of(img, t)
	switch {
	case set.Err != nil:
		return Topic{}, refuse("configs", "the topic of dead letters %q: %w", name, set.Err)
	case !set.Conf.DeadLetters:
		return Topic{}, refuse("not_enabled", "the topic %q takes no dead letters: set its config errors.deadletterqueue.group.enable to true", name)
	case set.Conf.Compact:
		return Topic{}, refuse("compacted", "the topic of dead letters %q is compacted, which would remove letters: set cleanup.policy=delete", name)
	}
	return Topic{Target{t.ID, partition % t.Partitions.Len()}, int(set.Conf.MaxMessageBytes)}, nil
}

// exists implements world.
func (d *Desk) exists(t Target) bool {
	topic := d.opt.Image().TopicByID(t.Topic)
	return topic != nil && t.Partition < topic.Partitions.Len()
}

// name implements world.
func (d *Desk) name(topic [16]byte) string {
	if t := d.opt.Image().TopicByID(topic); t != nil {
		return t.Name
	}
	return fmt.Sprintf("%x", topic)
}

// readBytes is how much is read at a time, except for a larger batch.
const readBytes = 1 << 20

// read implements world.
func (d *Desk) read(ctx context.Context, of *shareleader.Source, from, last int64, fn func(record.Record) int64) error {
	part, err := d.opt.Partition(of.Key.Topic, of.Key.Partition)
	if err != nil {
		return err
	}
	if last >= part.Ends().HighWatermark {
		return fmt.Errorf("read dead letters of %s: %w", part, errUnreadable)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		res, err := part.Read(replica.ReadRequest{Offset: from, MaxBytes: readBytes, AtLeastOne: true, CurrentEpoch: of.Epoch,
			FetchedEpoch: -1})
		if err != nil {
			return fmt.Errorf("read dead letters of %s: %w", part, err)
		}
		if _, epoch := part.Leader(); epoch != of.Epoch { // the log may have changed during the read
			res.Release()
			return fmt.Errorf("read dead letters of %s: %w", part, replica.ErrNotLeader)
		}
		next, more, err := d.each(&res, from, fn)
		res.Release()
		if err != nil || !more {
			return err
		}
		from = next
	}
}

// errPassed ends the walk of a batch whose other records are not wanted.
var errPassed = errors.New("passed")

var errUnreadable = errors.New("the leader does not know yet that the records are committed")

// each calls fn with the records of a read that it wants, the first one at or above an offset. It
// returns where the next read begins, and whether fn wants more and there may be more.
func (d *Desk) each(res *replica.ReadResult, from int64, fn func(record.Record) int64) (next int64, more bool, err error) {
	next = from
	for _, part := range res.Parts {
		for len(part) > 0 {
			b, rest, err := record.Next(part)
			if err != nil {
				return next, false, err
			}
			part = rest
			if b.LastOffset() < next || b.Control() {
				next = max(next, b.LastOffset()+1)
				continue
			}
			err = b.Each(record.Limits{Places: d.opt.Places}, func(r record.Record) error {
				if r.Offset >= next {
					next = fn(r)
				}
				if next < 0 || next > b.LastOffset() {
					return errPassed
				}
				return nil
			})
			switch {
			case next < 0:
				return next, false, nil
			case err != nil && !errors.Is(err, errPassed):
				return next, false, err
			}
			next = max(next, b.LastOffset()+1)
		}
	}
	return next, next > from, nil
}

// append implements world.
func (d *Desk) append(ctx context.Context, t Target, after int64, b record.Batch) (Last, bool, error) {
	a, err := d.ask(ctx, &request{Target: t, producer: b.ProducerID(), after: after, batch: b})
	return a.Last, a.appended, err
}

// ask sends a request to the leader of its target.
func (d *Desk) ask(ctx context.Context, q *request) (answer, error) {
	t := d.opt.Image().TopicByID(q.Topic)
	if t == nil || q.Partition >= t.Partitions.Len() {
		return answer{}, errors.New("the topic of dead letters was deleted")
	}
	leader := t.Partitions.At(q.Partition).Leader
	switch {
	case leader == d.opt.Self:
		return d.answer(ctx, q)
	case leader < 0 || d.opt.Call == nil:
		return answer{}, fmt.Errorf("partition %d of the topic of dead letters %q has no leader", q.Partition, t.Name)
	}
	body, err := d.opt.Call(ctx, leader, q.encode())
	if err != nil {
		return answer{}, fmt.Errorf("ask broker %d, the leader of partition %d of the topic of dead letters %q: %w", leader, q.Partition,
			t.Name, err)
	}
	return decodeAnswer(body)
}

// Handle handles a request of another broker's Desk, until ctx ends. body is not kept.
func (d *Desk) Handle(ctx context.Context, _ int32, body []byte) ([]byte, error) {
	q, err := decodeRequest(body)
	if err != nil {
		return nil, err
	}
	a, err := d.answer(ctx, q)
	if err != nil {
		return nil, err
	}
	return a.encode(), nil
}

// answer carries out a request for a partition that this broker leads.
func (d *Desk) answer(ctx context.Context, q *request) (answer, error) {
	part, err := d.opt.Partition(q.Topic, q.Partition)
	if err != nil {
		return answer{}, err
	}
	release, err := d.lock(ctx, q.producer)
	if err != nil {
		return answer{}, err
	}
	_, epoch := part.Leader()
	last, err := d.lastOf(part, q.producer)
	if err == nil && !q.follows(last, d.opt.Broken) && last.Offset >= 0 {
		err = flush(ctx, part, epoch, q.producer)
	}
	if err != nil || !q.follows(last, d.opt.Broken) {
		release()
		return answer{Last: last}, err
	}
	img := d.opt.Image()
	set := d.opt.Settings.Of(img, img.TopicByID(q.Topic))
	rules := rulesFor(set.Rules)
	accepted, err := rules.Accept(q.batch, time.Now())
	if err != nil {
		release()
		return answer{}, err
	}
	appended := make(chan error, 1)
	var batch groupcommit.Batch
	a := &replica.Append{LeaderEpoch: epoch, Acks: replica.AcksAll, Kind: storage.Client, Durable: true, Batches: accepted}
	a.Done = func(a *replica.Append) {
		release() // not before: the next request must find the batch in the log
		appended <- a.Err
	}
	part.Append(a, &batch)
	batch.Run()
	select {
	case err = <-appended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return answer{}, fmt.Errorf("append to %s: %w", part, err)
	}
	b := record.Batch(accepted.Bytes)
	return answer{appended: true, Last: Last{Offset: a.BaseOffset + int64(b.LastOffsetDelta()),
		Sequence: b.LastSequence(), Leader: -1}}, nil
}

// rulesFor returns the rules for copies in a topic with some rules. A copy is not refused because
// it is larger than its record, nor because the clocks of two brokers differ.
func rulesFor(topic record.Rules) record.Rules {
	topic.MaxBatchBytes, topic.TimestampBefore, topic.TimestampAfter, topic.OfBroker = 0, 0, 0, true
	return topic
}

// flush waits until the last batch is durable on all replicas in sync: its records are archived.
func flush(ctx context.Context, part *replica.Partition, leaderEpoch int32, producer int64) error {
	flushed := make(chan error, 1)
	part.Flush(leaderEpoch, producer, 0, func(err error) { flushed <- err })
	select {
	case err := <-flushed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errUncommitted = errors.New("the last copies are not committed yet")

// committed returns an error if an offset is not below the high watermark.
func committed(offset, high int64, broken Broken) error {
	if offset >= high && !broken.Has(AskEarly) {
		return errUncommitted
	}
	return nil
}

// follows reports whether the batch of a request may be appended after the last one.
func (q *request) follows(last Last, broken Broken) bool {
	return last.Offset == q.after || broken.Has(AppendAnyway)
}

// lastOf returns the last batch of a producer id in a partition that this broker leads.
func (d *Desk) lastOf(part *replica.Partition, producer int64) (Last, error) {
	if leader, _ := part.Leader(); leader != d.opt.Self {
		return none, replica.ErrNotLeader
	}
	known, ok := part.Log().Producer(producer)
	if !ok || known.Last < 0 {
		return none, nil
	}
	if err := committed(known.Last, part.Ends().HighWatermark, d.opt.Broken); err != nil {
		return none, err
	}
	last := Last{Offset: known.Last, Sequence: known.LastSequence, Leader: -1}
	res, err := part.Read(replica.ReadRequest{Offset: known.Last, MaxBytes: 1, AtLeastOne: true, CurrentEpoch: -1, FetchedEpoch: -1})
	if errors.Is(err, storage.ErrOffsetOutOfRange) {
		return last, nil // it was deleted
	}
	if err != nil {
		return none, fmt.Errorf("read the last copies in %s: %w", part, err)
	}
	defer res.Release()
	for _, p := range res.Parts {
		if b, _, err := record.Next(p); err == nil && b.ProducerID() == producer {
			last.Letters, last.Leader, err = lettersOf(b)
			return last, err
		}
	}
	return last, nil
}

// lock waits for the lock of a producer id.
func (d *Desk) lock(ctx context.Context, producer int64) (release func(), err error) {
	d.mu.Lock()
	l := d.locks[producer]
	if l == nil {
		l = &lock{held: make(chan struct{}, 1)}
		d.locks[producer] = l
	}
	l.users++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(d.locks, producer)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
