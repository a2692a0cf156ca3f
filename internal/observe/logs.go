package observe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Logs reads the partitions of this broker. It is safe for concurrent use but for Facts, and reads
// no disk except in Detail.
type Logs struct {
	Self     int32
	Image    func() *metadata.Image
	Replicas *replica.Manager
	Storage  *storage.Manager
	Settings *replica.TopicSettings
	// Copying returns how far the copies of a partition to the object store are; nil: nothing
	// copies.
	Copying func(*replica.Partition) view.Copying

	// refusing has since when logs have accepted no records, and topics is what the last image
	// says. Only the Monitor's goroutine uses them.
	refusing map[metadata.TopicPartition]time.Time
	topics   topicFaults
}

// Each calls yield for every partition of this broker: first those that the metadata assign to it,
// then logs that it does not have any more, such as those of a topic that is being deleted. The Log
// is valid until yield returns.
func (s *Logs) Each(yield func(*view.Log)) { s.read(s.Image()).each(yield) }

// each returns the topics.
func (r *reading) each(yield func(*view.Log)) (topics []view.Topic) {
	for t := range r.img.Topics() {
		topics = append(topics, r.topic(t, yield))
	}
	for _, l := range r.Storage.Logs() {
		if id := l.ID(); !r.assigns(metadata.TopicPartition{Topic: id.Topic, Partition: id.Partition}) {
			r.unassigned(l, yield)
		}
	}
	return topics
}

// assigns reports whether the metadata assign a partition to this broker.
func (r *reading) assigns(tp metadata.TopicPartition) bool {
	p := r.img.Partition(tp)
	return p != nil && slices.Contains(p.Replicas, r.Self)
}

// unassigned calls yield for a log that the metadata do not assign to this broker.
func (r *reading) unassigned(l *storage.Log, yield func(*view.Log)) {
	x := stored(l)
	x.TopicID = metadata.FormatID(l.ID().Topic)
	if x.Error == "" || r.Storage.Get(l.ID()) == l { // not one that is deleted now
		yield(&x)
	}
}

// Topics returns all topics of the cluster.
func (s *Logs) Topics() []view.Topic { return s.read(s.Image()).each(func(*view.Log) {}) }

// Topic returns a topic, and this broker's partitions of it by number.
func (s *Logs) Topic(img *metadata.Image, t *metadata.Topic) (view.Topic, []view.Log) {
	list := make([]view.Log, 0, t.Partitions.Len())
	sum := s.read(img).topic(t, func(x *view.Log) { list = append(list, *x) })
	return sum, list
}

// reading is a pass over the partitions.
type reading struct {
	*Logs
	img       *metadata.Image
	now       time.Time
	uncreated map[metadata.TopicPartition]replica.Failure // logs that could not be created or are missing
	// The following are set for findings only.
	copies  map[metadata.TopicPartition]*view.Copy
	formers map[metadata.TopicPartition]*view.Former
	asks    map[metadata.TopicPartition]replica.Waiting
}

func (s *Logs) read(img *metadata.Image) *reading {
	r := &reading{Logs: s, img: img, now: time.Now(), uncreated: map[metadata.TopicPartition]replica.Failure{}}
	for _, f := range s.Replicas.Failed() {
		r.uncreated[metadata.TopicPartition{Topic: f.TopicID, Partition: f.Partition}] = f
	}
	return r
}

func (r *reading) topic(t *metadata.Topic, yield func(*view.Log)) view.Topic {
	set := r.Settings.Of(r.img, t)
	conf := &set.Log
	sum := view.Topic{Name: t.Name, ID: metadata.FormatID(t.ID), Internal: t.Internal, Partitions: int(t.Partitions.Len()),
		Profile: conf.Profile.Name, Weak: conf.Profile.Ack == durability.Written, Cleanup: cmp.Or(conf.Cleanup.Policy(), "none")}
	var x view.Log
	for i, p := range t.Partitions.All() {
		if !slices.Contains(p.Replicas, r.Self) {
			continue
		}
		var held bool
		if x, held = r.assigned(t, i, p); held {
			x.TopicID = sum.ID
			if x.Exists { // not the limits of the local disks
				x.RetentionMs, x.RetentionBytes = milliseconds(set.Conf.Retention), max(set.Conf.RetentionBytes, -1)
			}
			sum.Add(&x)
			yield(&x)
		}
	}
	return sum
}

// retired reports whether the replicas have given up a partition that the image assigns to this
// broker: an image is shown after they have applied it, so they are at a newer one, or another
// process is this broker. Faults of a log count only if its partition is not retired after they
// were read, since it is retired before its log is deleted.
func (r *reading) retired(topic [16]byte, index int32) bool {
	_, err := r.Replicas.Partition(topic, index)
	return errors.Is(err, replica.ErrUnknownPartition)
}

// assigned describes a partition that the metadata assign to this broker, without its TopicID. held
// is false if the broker has given it up.
func (r *reading) assigned(t *metadata.Topic, index int32, p *metadata.Partition) (x view.Log, held bool) {
	x = r.described(t, index, p)
	return x, x.Error == "" || !r.retired(t.ID, index)
}

// described is assigned without regard to a partition that was given up.
func (r *reading) described(t *metadata.Topic, index int32, p *metadata.Partition) view.Log {
	tp := metadata.TopicPartition{Topic: t.ID, Partition: index}
	at, err := r.Replicas.Partition(t.ID, index)
	var l *storage.Log
	if err == nil {
		l = at.Log()
	} else {
		l = r.Storage.Get(storage.ID{Topic: tp.Topic, Partition: tp.Partition})
	}
	x := view.Log{Topic: t.Name, Partition: index, Internal: metadata.IsInternal(t.Name), RetentionMs: -1, RetentionBytes: -1}
	if l != nil {
		x = stored(l)
	} else {
		x.Dir = r.lostDir(tp, err)
	}
	x.Leader, x.LeaderEpoch, x.ISR, x.Replicas = p.Leader, p.LeaderEpoch, p.ISR, p.Replicas
	x.Replicated, x.MinISR = len(p.Replicas) > 1, r.Settings.MinISR(r.img, t, p)
	switch {
	case err == nil:
		e := at.Ends()
		x.LogStart, x.HighWatermark = e.LogStart, e.HighWatermark
		x.Tier = r.tier(at)
	case creating(err, r.now):
		x.Creating = true
	default:
		x.Offline = true
		failed(&x, err)
		f := r.uncreated[tp]
		x.Planned, x.Retried = f.Dir, !f.NextTry.IsZero() || errors.As(err, new(*replica.CreatingError))
	}
	x.Copy, x.Former = r.copies[tp], r.formers[tp]
	if w, ok := r.asks[tp]; ok && !x.Offline {
		x.Asks, x.Offline = true, true
		x.Error = fmt.Sprintf("this broker must not lead it in epoch %d, because replicas may have records of epochs up to %d",
			w.From, max(w.From, w.Seen))
	}
	if x.Problem() != "" || x.Copy != nil {
		r.others(&x, tp, x.Copy != nil || l != nil && l.Flaw() != nil)
	}
	return x
}

// tier returns what the object store has of a partition, nil if nothing is to be there either.
func (r *reading) tier(p *replica.Partition) *view.Tier {
	t := p.Tier()
	if t == nil && !p.Log().Config().Cleanup.CopyFirst {
		return nil
	}
	x := &view.Tier{}
	if t != nil {
		x.Start, x.End, x.Bytes = t.Start, t.End, t.Bytes
	}
	if leader, _ := p.Leader(); leader == r.Self && r.Copying != nil {
		x.Copying = r.Copying(p)
	}
	return x
}

// milliseconds returns a limit as a config writes it, -1 for none.
func milliseconds(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// lostDir returns the directory of a log that is not there because of err: one that could not be
// opened, or "".
func (r *reading) lostDir(tp metadata.TopicPartition, err error) string {
	if d := (*storage.DirError)(nil); errors.As(err, &d) {
		return d.Path
	}
	id, ok := r.img.Placement(r.Self, tp)
	for _, d := range r.Storage.Failed() {
		if ok && d.ID == id {
			return d.Path
		}
	}
	return ""
}

// others adds what is known of the other replicas of a partition. flawed reports that the log of
// this broker's is damaged.
func (r *reading) others(x *view.Log, tp metadata.TopicPartition, flawed bool) {
	for _, b := range x.ISR {
		if b == r.Self {
			continue
		}
		state, _ := r.img.State(b)
		x.Renews = flawed
		x.Elsewhere = x.Elsewhere || !slices.Contains(state.Damaged, tp)
	}
}

// Detail adds what may read the disk.
func (s *Logs) Detail(x *view.Log) {
	id, err := metadata.ParseID(x.TopicID)
	l := s.Storage.Get(storage.ID{Topic: id, Partition: x.Partition})
	if err != nil || l == nil {
		return
	}
	x.Retained = l.Retained()
	if ratio, ok := l.DirtyRatio(); ok {
		x.DirtyRatio = &ratio
	}
}

// stored returns what storage knows of a log.
func stored(l *storage.Log) view.Log {
	conf, ends := l.Config(), l.Ends()
	x := view.Log{
		Exists: true, Topic: l.Topic(), Partition: l.ID().Partition, Dir: l.Dir().Path(), Leader: -1, LeaderEpoch: -1, ISR: []int32{},
		Replicas: []int32{},
		LogStart: ends.LogStart, LocalStart: ends.LogStart, HighWatermark: ends.LogStart, DurableEnd: ends.Durable, LogEnd: ends.LogEnd,
		Bytes: l.Size(), Segments: l.Segments(), Profile: conf.Profile.Name, Internal: metadata.IsInternal(l.Topic()),
		CleanupPolicy: conf.Cleanup.Policy(), RetentionMs: milliseconds(conf.Cleanup.RetentionTime),
		RetentionBytes: max(conf.Cleanup.RetentionBytes, -1),
	}
	if err := l.Offline(); err != nil {
		x.Offline, x.Reopens = true, l.Reopens()
		failed(&x, err)
	} else if err := l.Err(); err != nil {
		failed(&x, err)
	}
	for i, d := range l.Damages() {
		if i == 0 {
			x.Damaged = d.Error()
		}
		x.Damages = append(x.Damages, view.Damage{From: d.From, Next: d.Next, Where: d.File})
	}
	if a := l.Absent(); a != nil {
		x.Missing = a.Error()
	}
	return x
}

// creationTime is how long the creation of a log may take before its partition counts as offline.
const creationTime = 3 * time.Second

// creating reports whether a partition has no log only because the log is being created now.
func creating(err error, now time.Time) bool {
	var c *replica.CreatingError
	return errors.As(err, &c) && now.Sub(c.Since) < creationTime
}

// failed sets why a log cannot be written.
func failed(x *view.Log, err error) {
	x.Error, x.Cause, x.Full = Reason(err), cause(err, x), vfs.Full(err)
}

// cause returns what the error of a log follows from: the error of a system call, otherwise its
// text without the name of the partition.
func cause(err error, x *view.Log) string {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno.Error()
	}
	return strings.ReplaceAll(Reason(err), x.String(), "")
}

// Reason returns the text of an error without the part that the finding says already, or "" for
// nil.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	text := strings.TrimPrefix(err.Error(), replica.ErrOffline.Error()+": ")
	return strings.TrimPrefix(text, storage.ErrFailed.Error()+": ")
}
