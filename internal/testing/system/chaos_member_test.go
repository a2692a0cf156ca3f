package system

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// chaosMember is one run of a consumer, from its join until it leaves or dies.
type chaosMember struct {
	name, group string
	protocol    string // "classic" or "consumer"
}

// seat is one of the consumers of a run. Its member joins a group, works, pauses now and then, and
// leaves or dies; then the next member follows.
type seat struct {
	run      *chaosRun
	group    string
	protocol func(*rand.Rand) string
	number   int
	anchor   bool // never dies or pauses, so that its group always has a member
	random   *rand.Rand
	lives    int
}

// sit runs one member after another until the run is calm. The last member continues until ctx
// ends.
func (s *seat) sit(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		s.lives++
		protocol := s.protocol(s.random)
		m := &chaosMember{fmt.Sprintf("%s/%d.%d(%s)", s.group, s.number, s.lives, protocol), s.group, protocol}
		if err := s.live(ctx, m); err != nil {
			t.Errorf("%s: %v", m.name, err)
			return
		}
	}
}

// live runs one member.
func (s *seat) live(ctx context.Context, m *chaosMember) error {
	r, g := s.run, newGate()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	cl, err := kgo.NewClient(s.options(life, m, &spy{g, m, r.history})...)
	if err != nil {
		return err
	}
	r.history.note("%s joins", m.name)
	work, stop := context.WithCancel(ctx)
	defer stop()
	var loop sync.WaitGroup
	midway := make(chan time.Duration)
	loop.Go(func() { s.work(work, cl, m, g, midway) })
	if s.fate(ctx, m, g, midway) { // dies
		g.die()
		end()
	}
	stop()
	loop.Wait()
	cl.CloseAllowingRebalance()
	return nil
}

func (s *seat) options(life context.Context, m *chaosMember, spy *spy) []kgo.Opt {
	r := s.run
	opts := []kgo.Opt{kgo.WithContext(life), kgo.SeedBrokers(r.addr), kgo.ClientID(m.name), kgo.Dialer(spy.dial),
		kgo.ConsumerGroup(m.group),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.HeartbeatInterval(r.heartbeat), kgo.SessionTimeout(r.session), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.MetadataMaxAge(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })}
	if s.anchor {
		opts = append(opts, kgo.SessionTimeout(max(r.session, time.Minute)))
	}
	if s.random.IntN(3) == 0 {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics("^chaos-[ab]$"))
	} else {
		opts = append(opts, kgo.ConsumeTopics(chaosTopics()...))
	}
	if m.protocol == "consumer" {
		return append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	// An eager assignor: a member revokes all partitions before it rejoins, and waits for its work.
	// With a cooperative assignor, kgo keeps its partitions if a join reports that it is no longer
	// a member, and commits offsets that it read before its pause. In the classic protocol a
	// coordinator can't detect that.
	return append(opts, kgo.Balancers(kgo.RangeBalancer()))
}

// fate decides what happens to a member until its end, and returns true if it dies. It pauses at
// any point, or, with midway, when it has read records and not committed them.
func (s *seat) fate(ctx context.Context, m *chaosMember, g *gate, midway chan<- time.Duration) (dies bool) {
	r := s.run
	for {
		select {
		case <-ctx.Done():
			return false
		case <-r.calm:
			<-ctx.Done()
			return false
		case <-time.After(r.lifetime(s.random)):
		}
		if s.anchor {
			continue
		}
		switch s.random.IntN(4) {
		case 0:
			r.history.note("%s leaves", m.name)
			return false
		case 1:
			r.history.note("%s dies", m.name)
			return true
		default:
			d := r.pauseTime(s.random)
			if s.random.IntN(2) == 0 {
				r.pauseMember(m, g, d)
				continue
			}
			select {
			case midway <- d:
			case <-r.calm:
			}
		}
	}
}

// pauseMember pauses a member with all its connections.
func (r *chaosRun) pauseMember(m *chaosMember, g *gate, d time.Duration) {
	r.history.note("%s pauses for %v", m.name, d)
	open := g.hold()
	defer open()
	select {
	case <-time.After(d):
	case <-r.calm:
	case <-g.dead:
		return
	}
	r.history.note("%s continues", m.name)
}

// work reads and commits.
func (s *seat) work(ctx context.Context, cl *kgo.Client, m *chaosMember, g *gate, midway <-chan time.Duration) {
	r := s.run
	random := rand.New(rand.NewPCG(r.seed, uint64(s.number)<<32|uint64(s.lives)))
	for ctx.Err() == nil {
		fetched := cl.PollRecords(ctx, 1+random.IntN(200))
		g.pass()
		if fetched.IsClientClosed() {
			return
		}
		fetched.EachRecord(func(rec *kgo.Record) { r.history.onRead(m.group, rec) })
		g.pass()
		commits := random.IntN(3) > 0
		if fetched.NumRecords() > 0 {
			select {
			case d := <-midway:
				r.pauseMember(m, g, d)
				commits = true
			default:
			}
		}
		if commits {
			s.commit(ctx, cl, m)
		}
		cl.AllowRebalance()
	}
}

func (s *seat) commit(ctx context.Context, cl *kgo.Client, m *chaosMember) {
	offsets := cl.UncommittedOffsets()
	if len(offsets) == 0 {
		return
	}
	h := s.run.history
	floor := h.floor(m.group)
	cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				h.note("%s: commit: %v", m.name, err)
			}
			return
		}
		for i, t := range resp.Topics {
			for n, p := range t.Partitions {
				at := part{req.Topics[i].Topic, p.Partition}
				if p.ErrorCode != 0 {
					h.note("%s: commit of %v in epoch %d: %d", m.name, at, req.Generation, p.ErrorCode)
					continue
				}
				h.onCommit(m, req.Generation, floor, at, req.Topics[i].Partitions[n].Offset)
			}
		}
	})
}
