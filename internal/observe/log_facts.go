package observe

import (
	"errors"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/view"
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
	topics := r.each(func(x *view.Log) {
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
	for i := range topics {
		if t := &topics[i]; t.Weak && t.Replicas > 0 {
			f.Weaker = append(f.Weaker, t.Name)
		}
	}
	slices.Sort(f.Weaker)
	for t := range r.img.Topics() {
		if err := s.Settings.Of(r.img, t).Err; err != nil {
			f.Invalid = append(f.Invalid, checks.TopicFault{Topic: t.Name, Why: err.Error()})
		}
		if why := configdef.Unitless(retention, t.Configs[retention]); why != "" {
			f.Short = append(f.Short, checks.TopicFault{Topic: t.Name, Why: why})
		}
	}
}

// retention is the topic config that is short by mistake if days were meant.
const retention = "retention.ms"
