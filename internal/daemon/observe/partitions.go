package observe

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Partitions reports on the partitions of this broker.
type Partitions struct {
	Self     int32
	Image    func() *metadata.Image
	Replicas *replica.Manager
	Cluster  *Cluster
	Storage  *storage.Manager
}

// Metrics counts the partitions by state.
func (r *Partitions) Metrics() (n metrics.Partitions) {
	n.Failed = len(r.notCreated())
	self := r.Cluster.View().Of(r.Self)
	n.Led, n.UnderReplicated, n.UnderMinISR = self.Leads, self.UnderReplicated, self.UnderMinISR
	img := r.Image()
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			if slices.Contains(p.Replicas, r.Self) {
				r.count(&n, t, i)
			}
		}
	}
	n.Damaged = len(r.Storage.Damaged())
	return n
}

func (r *Partitions) count(n *metrics.Partitions, t *metadata.Topic, index int32) {
	if err := r.offline(t, index); err != nil && !creating(err, time.Now()) {
		n.Unavailable++
	}
}

// notCreated returns the partitions whose logs could not be created and are retried.
func (r *Partitions) notCreated() []replica.Failure {
	return slices.DeleteFunc(r.Replicas.Failed(), func(f replica.Failure) bool { return f.NextTry.IsZero() })
}

// offline returns why a partition can be neither written nor read, nil if it can.
func (r *Partitions) offline(t *metadata.Topic, index int32) error {
	p, err := r.Replicas.Partition(t.ID, index)
	if err != nil {
		return err
	}
	return p.Log().Offline()
}

// Facts is a checks.Source: partitions that cannot be used or have damaged records, and topics with
// a weaker guarantee than the default.
func (r *Partitions) Facts(f *checks.Facts) {
	weaker := map[string]bool{}
	for _, l := range r.Storage.Logs() {
		if l.Config().Profile.Ack == durability.Written {
			weaker[l.Topic()] = true
		}
		p := checks.Partition{Topic: l.Topic(), Index: l.ID().Partition, Dir: l.Dir().Path()}
		for _, d := range l.Damages() {
			p.Damages = append(p.Damages, checks.Damage{From: d.From, Next: d.Next, Where: d.File})
		}
		if len(p.Damages) > 0 {
			r.others(&p, l.ID().Topic, true)
			f.Partitions = append(f.Partitions, p)
		}
	}
	for name := range weaker {
		f.Weaker = append(f.Weaker, name)
	}
	slices.Sort(f.Weaker)
	retried := map[metadata.TopicPartition]bool{}
	for _, x := range r.notCreated() {
		retried[metadata.TopicPartition{Topic: x.TopicID, Partition: x.Partition}] = true
	}
	img := r.Image()
	for _, x := range r.Replicas.Renewals() {
		p := checks.Partition{Topic: x.Topic, Index: x.Partition,
			Copy: &checks.Copy{Leader: x.Leader, Why: reason(errors.New(x.Why)), Have: x.Have, Want: x.Want, Bytes: x.Bytes,
				Still: x.Still}}
		if t := img.Topic(x.Topic); t != nil {
			r.others(&p, t.ID, true)
		}
		f.Partitions = append(f.Partitions, p)
	}
	former, topics := r.Replicas.Outlived()
	for i, x := range former {
		f.Partitions = append(f.Partitions, checks.Partition{Topic: topics[i], Index: x.Partition, Dir: path.Dir(x.Path),
			Former: &checks.Former{Path: x.Path, Bytes: x.Bytes}})
	}
	for _, w := range r.Replicas.Leaderless() {
		if t := img.TopicByID(w.Topic); t != nil && f.Now.Sub(w.Since) >= creationTime {
			f.Partitions = append(f.Partitions, checks.Partition{Topic: t.Name, Index: w.Partition, Asks: true, Offline: fmt.Sprintf(
				"this broker must not lead it in epoch %d, because replicas may have records of epochs up to %d", w.From, max(w.From, w.Seen))})
		}
	}
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			if !slices.Contains(p.Replicas, r.Self) {
				continue
			}
			if err := r.offline(t, i); err != nil && !creating(err, f.Now) {
				x := checks.Partition{Topic: t.Name, Index: i, Offline: reason(err), Dir: r.dir(t, i, err),
					Retried: retried[metadata.TopicPartition{Topic: t.ID, Partition: i}] || errors.As(err, new(*replica.CreatingError))}
				l := r.Storage.Get(storage.ID{Topic: t.ID, Partition: i})
				r.others(&x, t.ID, l != nil && l.Flaw() != nil)
				f.Partitions = append(f.Partitions, x)
			}
		}
	}
}

// others adds the known state of the other replicas of a partition. flawed reports that the log of
// this broker's is damaged.
func (r *Partitions) others(x *checks.Partition, topic [16]byte, flawed bool) {
	img, tp := r.Image(), metadata.TopicPartition{Topic: topic, Partition: x.Index}
	p := img.Partition(tp)
	if p == nil {
		return
	}
	x.Replicated = len(p.Replicas) > 1
	for _, b := range p.ISR {
		if b == r.Self {
			continue
		}
		state, _ := img.State(b)
		x.Renews = flawed
		x.Elsewhere = x.Elsewhere || !slices.Contains(state.Damaged, tp)
	}
}

// creationTime is how long the creation of a log may take before its partition counts as offline.
const creationTime = 3 * time.Second

// creating reports whether a partition has no log only because the log is being created now.
func creating(err error, now time.Time) bool {
	var c *replica.CreatingError
	return errors.As(err, &c) && now.Sub(c.Since) < creationTime
}

// dir returns the log directory of a partition that is offline because of err, or "" if it is
// unknown.
func (r *Partitions) dir(t *metadata.Topic, index int32, err error) string {
	if p, err := r.Replicas.Partition(t.ID, index); err == nil {
		return p.Log().Dir().Path()
	}
	if d := (*storage.DirError)(nil); errors.As(err, &d) {
		return d.Path
	}
	return ""
}

// Reason returns the text of an error without the part that the finding says already, or "" for
// nil.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	return reason(err)
}

// reason returns the text of an error without the part that the finding says already.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), replica.ErrOffline.Error()+": ")
	return strings.TrimPrefix(text, storage.ErrFailed.Error()+": ")
}
