package observe

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

// refusesAfter is how long a log accepts no records before that is a fault: a repair takes moments.
const refusesAfter = 3 * time.Second

// Facts is a checks.Source: partitions that cannot be used, take no records or have damaged ones,
// copies of damaged logs, and topics with a weaker guarantee than the default. Only the Monitor's
// goroutine may call it.
func (s *Logs) Facts(f *checks.Facts) {
	r := s.read(s.Image())
	r.copies, r.formers = map[metadata.TopicPartition]*view.Copy{}, map[metadata.TopicPartition]*view.Former{}
	r.asks = map[metadata.TopicPartition]replica.Waiting{}
	for _, x := range s.Replicas.Renewals() {
		if t := r.img.Topic(x.Topic); t != nil {
			r.copies[metadata.TopicPartition{Topic: t.ID, Partition: x.Partition}] = &view.Copy{Leader: x.Leader,
				Why: Reason(errors.New(x.Why)), Have: x.Have, Want: x.Want, Bytes: x.Bytes, Still: x.Still}
		}
	}
	f.Renewed = s.Replicas.Renewed()
	f.Renewed.Why = Reason(errors.New(f.Renewed.Why))
	former, _ := s.Replicas.Outlived()
	for _, x := range former {
		r.formers[metadata.TopicPartition{Topic: x.Topic, Partition: x.Partition}] = &view.Former{Path: x.Path, Bytes: x.Bytes}
	}
	for _, w := range s.Replicas.Leaderless() {
		if f.Now.Sub(w.Since) >= creationTime {
			r.asks[w.TopicPartition] = w
		}
	}
	before, failed := s.refusing, map[string]bool{}
	s.refusing = map[metadata.TopicPartition]time.Time{}
	for _, d := range s.Storage.Dirs() { // what is wrong with a directory is not said of each log
		failed[d.Path()] = d.Err() != nil
	}
	r.suspects(func(x *view.Log) {
		if x.Error != "" && !x.Offline && x.Exists && !failed[x.Dir] {
			id, _ := metadata.ParseID(x.TopicID) // FormatID's text
			tp := metadata.TopicPartition{Topic: id, Partition: x.Partition}
			if s.refusing[tp] = before[tp]; before[tp].IsZero() {
				s.refusing[tp] = f.Now
			}
			if since := f.Now.Sub(s.refusing[tp]); since >= refusesAfter {
				x.Refuses = since
			}
		}
		if x.Refuses > 0 || x.Offline || len(x.Damages) > 0 || x.Copy != nil || x.Former != nil || x.Missing != "" {
			f.Partitions = append(f.Partitions, *x)
		}
	})
	if s.topics.img != r.img {
		s.topics = r.topicFaults()
	}
	f.Weaker, f.Invalid, f.Short = s.topics.weaker, s.topics.invalid, s.topics.short
}

// suspects calls yield for the partitions that findings may be about, as Each does: those without a
// log, or with one that is faulty or not complete. The time that it takes depends on the number of
// these, not of all.
func (r *reading) suspects(yield func(*view.Log)) {
	list := map[metadata.TopicPartition]bool{}
	for tp := range r.copies {
		list[tp] = true
	}
	for tp := range r.formers {
		list[tp] = true
	}
	for tp := range r.asks {
		list[tp] = true
	}
	for _, tp := range r.Replicas.WithoutLog() {
		list[tp] = true
	}
	for _, x := range r.Storage.Moves() { // its log may have left one directory, and not be in the other one
		list[metadata.TopicPartition{Topic: x.ID.Topic, Partition: x.Partition}] = true
	}
	var rest []*storage.Log
	for _, l := range r.Storage.Faulty() {
		tp := metadata.TopicPartition{Topic: l.ID().Topic, Partition: l.ID().Partition}
		if list[tp] = r.assigns(tp); !list[tp] {
			rest = append(rest, l)
		}
	}
	for _, tp := range slices.SortedFunc(maps.Keys(list), r.compare) {
		if r.assigns(tp) {
			t := r.img.TopicByID(tp.Topic)
			if x, held := r.assigned(t, tp.Partition, t.Partitions.At(tp.Partition)); held {
				x.TopicID = metadata.FormatID(t.ID)
				yield(&x)
			}
		}
	}
	for _, l := range rest {
		r.unassigned(l, yield)
	}
}

// compare orders partitions by topic and number.
func (r *reading) compare(a, b metadata.TopicPartition) int {
	name := func(tp metadata.TopicPartition) string {
		if t := r.img.TopicByID(tp.Topic); t != nil {
			return t.Name
		}
		return ""
	}
	return cmp.Or(cmp.Compare(name(a), name(b)), cmp.Compare(a.Partition, b.Partition))
}

// topicFaults are the findings about topics that follow from an image, and the names of topics
// whose profile guarantees less than the default one.
type topicFaults struct {
	img            *metadata.Image
	weaker         []string
	invalid, short []checks.TopicFault
}

// topicFaults reads all topics.
func (r *reading) topicFaults() topicFaults {
	all := topicFaults{img: r.img}
	for t := range r.img.Topics() {
		set := r.Settings.Of(r.img, t)
		if set.Log.Profile.Ack == durability.Written && r.has(t) {
			all.weaker = append(all.weaker, t.Name)
		}
		if set.Err != nil {
			all.invalid = append(all.invalid, checks.TopicFault{Topic: t.Name, Why: set.Err.Error()})
		}
		if why := configdef.Unitless(retention, t.Configs[retention]); why != "" {
			all.short = append(all.short, checks.TopicFault{Topic: t.Name, Why: why})
		}
	}
	slices.Sort(all.weaker)
	return all
}

// has reports whether the metadata assign a partition of a topic to this broker.
func (r *reading) has(t *metadata.Topic) bool {
	for _, p := range t.Partitions.All() {
		if slices.Contains(p.Replicas, r.Self) {
			return true
		}
	}
	return false
}

// retention is the topic config that is short by mistake if days were meant.
const retention = "retention.ms"
