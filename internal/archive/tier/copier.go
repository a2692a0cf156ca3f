package tier

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Options are a Copier's.
type Options struct {
	Self int32
	// Open returns the object store and the prefix of the cluster's objects in it. Calls of the
	// store must have deadlines; see objects.Repeat.
	Open func() (objects.Store, string, error)
	// Partitions returns the partitions of this broker.
	Partitions func() []*replica.Partition
	// Image returns the newest image, and Applied waits until it shows a revision and the
	// partitions follow it.
	Image   func() *metadata.Image
	Applied func(ctx context.Context, revision int64) error
	// Alter is controller.AlterTier. Raise raises the cluster to a feature level, if all brokers
	// support it.
	Alter func(ctx context.Context, x *metadata.TierChange) (revision int64, err error)
	Raise func(ctx context.Context, level int32) error
	// Topic returns the settings of a topic under an image.
	Topic func(*metadata.Image, *metadata.Topic) *configdef.Topic
	// Interval is the pause between two rounds.
	Interval time.Duration
	// Rate returns how many bytes per second are read and uploaded at most, on average over an
	// object; 0: no bound.
	Rate func() int64
	// Duty is that of upload.Options.
	Duty   *pause.Duty
	Logger *zap.Logger
	// Sizes replaces the sizes of uploads; zero fields select 64 MiB and 1000. Only tests set it.
	Sizes upload.Options
	// Broken are the rules that a test has removed.
	Broken breakrules.Removed[Rule]
}

// copiers is how many partitions are copied at a time: most of the time of a small copy is that of
// the store's answers.
const copiers = 4

// stepTime bounds one step, such as the copy of one object, in addition to the time that the rate
// demands.
const stepTime = 10 * time.Minute

// mostSteps bounds the steps of a partition in a round: the others have their turn then. It needs
// fewer before its next copy, unless the metadata change meanwhile and refuse what it has done.
const mostSteps = 8

// Copier works for one broker. Run runs it; the other methods may be called concurrently.
type Copier struct {
	opt    Options
	counts counts
	pace   pause.Pace // of the bytes read

	// Of Run: the partitions that have more to copy, and when all were examined.
	left     []*replica.Partition
	examined time.Time

	mu       sync.Mutex                        // guards the following fields
	compared map[metadata.TopicPartition]int32 // the leader epoch in which each was compared
	failures map[metadata.TopicPartition]Failure
	oldest   map[metadata.TopicPartition]oldest
}

// oldest is what retention has found last in the records of a partition: the oldest part above
// Start, and the bytes of it and of those before. Copies do not change it. It counts as long as the
// Tier begins there, and the broker leads in that epoch.
type oldest struct {
	start int64
	epoch int32
	first []format.Part // one; nil: nothing was found
	bytes int64
}

// Failure is why a partition's records are not copied, or cannot be read from the store.
type Failure struct {
	Topic     string
	Partition int32
	Since     time.Time
	Err       error
	tried     time.Time
}

// New returns a Copier.
func New(o Options) *Copier {
	s := &o.Sizes
	s.ObjectBytes, s.ManifestParts = cmp.Or(s.ObjectBytes, upload.ObjectBytes), cmp.Or(s.ManifestParts, upload.ManifestParts)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return &Copier{opt: o, pace: pause.Pace{Idle: upload.IdlePace}, compared: map[metadata.TopicPartition]int32{},
		failures: map[metadata.TopicPartition]Failure{}, oldest: map[metadata.TopicPartition]oldest{}}
}

// Failures returns why records are not copied, by topic and partition.
func (c *Copier) Failures() []Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sorts.Sorted(maps.Values(c.failures), func(a, b Failure) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// Run works until ctx ends. While records wait to be copied, a round follows the other.
func (c *Copier) Run(ctx context.Context) {
	label.Goroutine("tier", "")
	t := time.NewTimer(pause.Spread(c.opt.Interval))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		next := c.opt.Interval
		if c.round(ctx) {
			next = 0
		}
		t.Reset(next)
	}
}

// round examines partitions once, and copies at most one object of each: those that have more to
// copy after the last round, or all if there are none or the interval has passed. more reports that
// some have more. A partition that has failed waits for the interval.
func (c *Copier) round(ctx context.Context) (more bool) {
	list, led := c.left, map[metadata.TopicPartition]bool{}
	all := len(list) == 0 || time.Since(c.examined) >= c.opt.Interval
	if all {
		list, c.examined = c.opt.Partitions(), time.Now()
	}
	img := c.opt.Image()
	var todo []*replica.Partition
	for _, p := range list {
		topic := img.TopicByID(p.Log().ID().Topic)
		if topic == nil || !c.leads(img, p) {
			continue
		}
		if conf := c.opt.Topic(img, topic); conf.Remote || p.Tier() != nil {
			led[p.TopicPartition()] = true
			if !c.waits(p) {
				todo = append(todo, p)
			}
		}
	}
	if c.left = nil; all {
		c.forget(led)
	}
	if len(todo) == 0 {
		return false
	}
	if img.FeatureLevel() < metadata.TierLevel {
		if err := c.opt.Raise(ctx, metadata.TierLevel); err != nil {
			c.failed(todo, fmt.Errorf("the metadata cannot name copies of records before all brokers run this version: %w", err))
			return false
		}
	}
	store, prefix, err := c.opt.Open()
	if err != nil {
		c.failed(todo, err)
		return false
	}
	up := c.opt.Sizes
	up.Store, up.Prefix, up.Spend, up.Duty = store, prefix, c.spend, c.opt.Duty
	left := make([]bool, len(todo))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(copiers, len(todo)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(todo)); i = next.Add(1) - 1 {
				left[i] = c.partition(ctx, up, todo[i])
			}
		})
	}
	group.Wait()
	for i, p := range todo {
		if left[i] {
			c.left = append(c.left, p)
		}
	}
	return len(c.left) > 0
}

// waits reports whether a partition has failed within the interval.
func (c *Copier) waits(p *replica.Partition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, failed := c.failures[p.TopicPartition()]
	return failed && time.Since(f.tried) < c.opt.Interval
}

// forget drops what is known of partitions that this broker does not lead.
func (c *Copier) forget(led map[metadata.TopicPartition]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.compared, func(tp metadata.TopicPartition, _ int32) bool { return !led[tp] })
	maps.DeleteFunc(c.failures, func(tp metadata.TopicPartition, _ Failure) bool { return !led[tp] })
	maps.DeleteFunc(c.oldest, func(tp metadata.TopicPartition, _ oldest) bool { return !led[tp] })
}

// leads reports whether this broker leads a partition, by the image and in fact.
func (c *Copier) leads(img *metadata.Image, p *replica.Partition) bool {
	rec := img.Partition(p.TopicPartition())
	leader, epoch := p.Leader()
	return rec != nil && rec.Leader == c.opt.Self && leader == c.opt.Self && rec.LeaderEpoch == epoch
}

// partition does what is due of one partition, until nothing is, one object was copied, or it
// fails. more reports that another object may be due.
func (c *Copier) partition(ctx context.Context, up upload.Options, p *replica.Partition) (more bool) {
	copied := false
	for n := 0; n < mostSteps && !copied && ctx.Err() == nil; n++ {
		bounded, cancel := context.WithTimeout(ctx, stepTime+c.atRate())
		s := &step{c: c, ctx: bounded, up: up, b: upload.NewBatch(up), p: p, tp: p.TopicPartition(), img: c.opt.Image()}
		var err error
		more, err = s.run()
		s.end()
		cancel()
		if newer, refused := metadata.Refused(err); refused {
			more, err = true, c.opt.Applied(ctx, newer)
		}
		if ctx.Err() != nil {
			return false
		}
		c.outcome(p, err)
		if err != nil || !more {
			return false
		}
		copied = s.copied
	}
	return more
}

// atRate returns how long the rate may keep an object from being read, next to those of the other
// partitions.
func (c *Copier) atRate() time.Duration {
	rate := c.rate()
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(copiers*2*c.opt.Sizes.ObjectBytes) / float64(rate) * float64(time.Second))
}

func (c *Copier) rate() int64 {
	if c.opt.Rate == nil {
		return 0
	}
	return c.opt.Rate()
}

// outcome notes how the last step of a partition ended.
func (c *Copier) outcome(p *replica.Partition, err error) {
	if err == nil {
		c.mu.Lock()
		delete(c.failures, p.TopicPartition())
		c.mu.Unlock()
		return
	}
	c.failed([]*replica.Partition{p}, err)
}

func (c *Copier) failed(list []*replica.Partition, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.failures.Add(int64(len(list)))
	for _, p := range list {
		tp := p.TopicPartition()
		f, known := c.failures[tp]
		if !known {
			f = Failure{Topic: p.Log().Topic(), Partition: tp.Partition, Since: time.Now()}
			c.opt.Logger.Warn("records are not copied to the object store", zap.Stringer("partition", p), zap.Error(err))
		}
		f.Err, f.tried = err, time.Now()
		c.failures[tp] = f
	}
}

// spend waits as the rate demands after n bytes were read.
func (c *Copier) spend(ctx context.Context, n int) error {
	if pause.Sleep(ctx, c.pace.Count(n, float64(c.rate()))) != nil {
		return context.Cause(ctx)
	}
	return nil
}
