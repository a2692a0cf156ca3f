package shareleader

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// Letters copies dead letters (KIP-1191): records that are archived because a member rejected them,
// or because of the delivery limit.
type Letters interface {
	// Copier returns what copies the dead letters of a share partition, from a load to the next.
	Copier(of Source) Copier
}

// Source is a share partition in one of its loads.
type Source struct {
	Key format.Key
	// ID is the identity of the stored state, and Epoch the leader epoch in which it was opened.
	ID    sharestate.Identity
	Epoch int32
	// Epochs returns the leader epochs of the log. A record that another leader has copied is the
	// same here if its offset has the same leader epoch. It fails if this broker does not lead in
	// Epoch any more.
	Epochs func() (epochs.Cache, error)
}

// Copier copies the dead letters of a share partition. Its caller makes one call at a time.
type Copier interface {
	// Copy copies some of the letters, and returns offsets that have exactly one copy now, which is
	// durable on all replicas in sync. They may be others than those of letters. It blocks for
	// disks and the network until ctx ends. Letters that it has not returned before an error may
	// have a copy or not; a later call finds out. The caller stores that letters are archived
	// before it makes the next call.
	Copy(ctx context.Context, to LettersTo, letters []window.Letters) ([]window.Letters, error)
}

// LettersTo is where the dead letters of a group are copied, and how.
type LettersTo struct {
	// Topic is errors.deadletterqueue.topic.name; empty: they are not copied, and archived.
	Topic string
	// Unknown is why the configs of the group cannot be read. Its dead letters wait: they may have
	// a topic.
	Unknown string
	// Whole is errors.deadletterqueue.copy.record.enable: copies have what the records have.
	// Otherwise they only say where the records are.
	Whole bool
	// Deliveries is share.delivery.count.limit, which tells why a record is a dead letter.
	Deliveries int
}

const (
	// mostLetters is how many dead letters are copied at a time.
	mostLetters = 1000
	// copyTime bounds a copy.
	copyTime = 30 * time.Second
)

// copyBackoff bounds the pause after a copy that failed.
var copyBackoff = pause.Backoff{First: 100 * time.Millisecond, Most: 10 * time.Second}

// letters are the dead letters of a share partition. Partition.mu guards them.
type letters struct {
	by    Copier
	list  []window.Letters // that are being copied
	busy  bool             // a call of by, or a write of what it has copied, is under way
	at    time.Duration    // of the next try, 0: none failed
	tries int              // that failed in a row
	since time.Duration    // of the first try of the list that failed, 0: none has
	seen  LettersView
}

// LettersView is what operators see of the dead letters of a share partition.
type LettersView struct {
	// Copied and Failed count records that were copied, and copies that failed and were repeated,
	// since the share partition is in memory.
	Copied, Failed uint64
	// Pending are the records that wait for their copies.
	Pending int64
	// Failing is for how long copies have failed without a success between, 0: they do not.
	Failing time.Duration
	// Err is why the last copy failed, empty if it did not, and Reason names the kind of that
	// error, one of few.
	Err, Reason string
}

// ReasonOf returns the kind of an error of a Copier, for metrics: that of its method Reason, and
// "other" without one.
func ReasonOf(err error) string {
	var of interface{ Reason() string }
	if errors.As(err, &of) {
		return of.Reason()
	}
	return "other"
}

// unknown is the error of a group whose configs cannot be read.
type unknown string

func (e unknown) Error() string { return string(e) }

// Reason is that of ReasonOf.
func (e unknown) Reason() string { return "configs" }

// view returns what operators see of the dead letters. The caller holds mu.
func (c *letters) view(p *Partition) LettersView {
	v := c.seen
	if p.w != nil {
		v.Pending = p.w.Stats().Offsets[window.Archiving]
	}
	if c.since > 0 {
		v.Failing = max(p.l.now()-c.since, 1)
	}
	return v
}

// copyLetters copies the next dead letters, if there are any and no others are being copied.
func (p *Partition) copyLetters() {
	c := &p.letters
	if p.state != ready || c.busy || c.at > 0 {
		return
	}
	start := p.log.Ends().LogStart
	p.w.StartMoved(start) // what is deleted needs no copy
	p.pump()
	if c.list = c.above(start); len(c.list) == 0 {
		for left := int64(mostLetters); left > 0; {
			l, ok := p.w.NextLetters(left)
			if !ok {
				break
			}
			c.list = append(c.list, l)
			left -= l.Last - l.First + 1
		}
	}
	if len(c.list) == 0 {
		return
	}
	c.busy = true
	load, by, to := p.load, c.by, p.cfg.Letters
	list := append([]window.Letters(nil), c.list...)
	if by == nil || to.none() { // the group has no topic for them any more
		p.archive(list, false)
		return
	}
	to.Deliveries = p.cfg.Deliveries
	p.do(func() {
		p.l.opt.Go(func() {
			got, err := p.copyTo(by, to, list)
			p.lock()
			defer p.unlock()
			if p.load == load && p.w != nil {
				p.copied(got, err)
			}
		})
	})
}

// none reports whether dead letters are archived without copies.
func (to *LettersTo) none() bool { return to.Topic == "" && to.Unknown == "" }

// copyTo blocks until letters are copied, or cannot be.
func (p *Partition) copyTo(by Copier, to LettersTo, list []window.Letters) ([]window.Letters, error) {
	if to.Unknown != "" {
		return nil, unknown(to.Unknown)
	}
	ctx, cancel := context.WithTimeout(p.l.ctx, copyTime)
	defer cancel()
	return by.Copy(ctx, to, list)
}

// above returns the letters that are being copied and are not below an offset.
func (c *letters) above(start int64) (list []window.Letters) {
	for _, l := range c.list {
		if l.First = max(l.First, start); l.First <= l.Last {
			list = append(list, l)
		}
	}
	return list
}

// copied notes the result of a copy.
func (p *Partition) copied(got []window.Letters, err error) {
	c := &p.letters
	if c.seen.Err, c.seen.Reason = "", ""; err != nil {
		c.seen.Failed++
		c.seen.Err, c.seen.Reason = err.Error(), ReasonOf(err)
		p.total.letters(0, 1)
		c.tries++
		if c.at = p.l.now() + copyBackoff.After(c.tries); c.since == 0 {
			c.since = p.l.now()
			p.l.opt.Logger.Warn("a dead letter of a share group cannot be copied now, trying again", p.named(), zap.Error(err))
		}
	} else {
		c.tries, c.since = 0, 0
	}
	p.archive(got, true)
}

// archive archives letters that were copied, or need no copy. The next ones follow when that is
// stored: a later leader finds out about the last copies only.
func (p *Partition) archive(got []window.Letters, copied bool) {
	c := &p.letters
	for _, g := range got {
		if n := p.w.Copied(g.First, g.Last); copied {
			c.seen.Copied += uint64(n)
			p.total.letters(n, 0)
		}
		var rest []window.Letters
		for _, l := range c.list {
			if l.First < g.First {
				rest = append(rest, window.Letters{First: l.First, Last: min(l.Last, g.First-1), Count: l.Count})
			}
			if l.Last > g.Last {
				rest = append(rest, window.Letters{First: max(l.First, g.Last+1), Last: l.Last, Count: l.Count})
			}
		}
		c.list = rest
	}
	if p.l.opt.Broken.Has(CopyAhead) {
		c.busy = false
		p.pump()
		p.copyLetters()
		return
	}
	p.awaitArchived()
	p.pump()
}

// awaitArchived waits until what is archived is stored.
func (p *Partition) awaitArchived() {
	seq := p.w.Pending()
	if seq == 0 {
		p.letters.busy = false
		p.copyLetters()
		return
	}
	load := p.load
	p.waiters = append(p.waiters, waiter{seq: seq, at: p.l.now(), done: func(code *kerr.Error) {
		p.lock()
		defer p.unlock()
		switch {
		case p.load != load || p.w == nil:
		case code != nil:
			p.awaitArchived() // the write is under way still
		default:
			p.letters.busy = false
			p.copyLetters()
		}
	}})
}
