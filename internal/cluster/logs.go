package cluster

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
)

// dirFormat is the format of log directories that this version writes, as registrations show it.
const dirFormat = 1

// Logs are this broker's logs, as it reports them to the controller.
type Logs struct {
	Self    int32
	Storage *storage.Manager
	// Image returns the latest metadata that this broker has applied or, before it has applied any,
	// those with which its logs were opened.
	Image func() *metadata.Image
	// Replicas returns the partitions; nil until they have followed the metadata.
	Replicas func() *replica.Manager
}

// Exchanged returns the paths of the log directories that this broker has for the first time, if
// one that it had at its last start is not there: a disk was replaced, or is not mounted. If a
// directory could not be opened, that is the one, and it returns nil.
func (b *Logs) Exchanged() (paths []string) {
	before, known := b.Image().Broker(b.Self)
	if !known || len(b.Storage.Failed()) > 0 {
		return nil
	}
	had := func(id [16]byte) bool {
		return slices.ContainsFunc(before.Dirs, func(d metadata.BrokerDir) bool { return d.ID == id })
	}
	there := 0
	for _, d := range b.Storage.Dirs() {
		if had(d.ID()) {
			there++
		} else {
			paths = append(paths, d.Path())
		}
	}
	if there == len(before.Dirs) {
		return nil
	}
	return paths
}

// registration is what a process tells the controller of its logs when it registers.
type registration struct {
	dirs           []controller.RegisterDir
	lossy, damaged []metadata.TopicPartition // logs that may lack records
}

// registration returns what this process registers, and logs which directories may have lost
// records.
func (b *Logs) registration(log *zap.Logger) (o registration) {
	for _, d := range b.Storage.Dirs() {
		f := d.Finding()
		o.dirs = append(o.dirs, controller.RegisterDir{
			ID: d.ID(), Format: dirFormat, Clean: d.Clean(), Finding: f.ID, Found: f.Seq, Sequence: d.CheckpointSequence(),
		})
		if d.Lossy() {
			log.Warn("records that were acknowledged before they were synced may be lost: the machine stopped and the last stop was not clean",
				zap.String("dir", d.Path()), zap.Int("partitions", len(d.LossyLogs())))
			for _, id := range d.LossyLogs() {
				o.lossy = append(o.lossy, partitionOf(id))
			}
		}
	}
	for _, l := range b.damaged() {
		o.damaged = append(o.damaged, l.TopicPartition)
	}
	return o
}

func partitionOf(id storage.ID) metadata.TopicPartition {
	return metadata.TopicPartition{Topic: id.Topic, Partition: id.Partition}
}

// state returns the state of this broker for a heartbeat, as far as its logs show it.
func (b *Logs) state() membership.BrokerState {
	var out membership.BrokerState
	if replicas := b.Replicas(); replicas != nil {
		out.Applied = b.Image().Version()
		out.Unable = replicas.Unable()
		out.Uncompared, out.UncomparedLogs = replicas.Uncompared(b.Image(), controller.MaxReportedUncompared)
	}
	out.AddDamage(b.damaged())
	return out
}

// logEnd returns how far a log goes, unless its records can't be read or added to. Its last epoch
// is that of its last record, or a later one in which it led: only a leader that has noted its
// epoch commits records, so the log that led last has all of them.
//
// A log of which some records can't be read is compared with the others all the same: of a
// partition with no whole log, one must lead.
func (b *Logs) logEnd(tp metadata.TopicPartition) (end election.LogState, ok bool) {
	l := b.Storage.Get(storage.ID{Topic: tp.Topic, Partition: tp.Partition})
	if l == nil || l.Err() != nil {
		return end, false
	}
	end.RecordEpoch, end.End = l.LastEpoch()
	end.LastEpoch = max(end.RecordEpoch, l.LedEpoch())
	return end, true
}

// damaged returns the logs that lack what they should have, or are not there.
//
// A leader reports its own log when a member of the ISR follows that can lead instead, or when none
// is left: otherwise the leadership might go to a member that is down, and no client could read
// what is intact here.
func (b *Logs) damaged() (list []membership.DamagedLog) {
	img, replicas := b.Image(), b.Replicas()
	add := func(tp metadata.TopicPartition, dir [16]byte) {
		p := img.Partition(tp)
		list = append(list, membership.DamagedLog{TopicPartition: tp, Dir: dir, Only: p != nil && len(p.Replicas) == 1})
	}
	for _, l := range b.Storage.Flawed() {
		id := l.ID()
		if replicas != nil {
			if p, err := replicas.Partition(id.Topic, id.Partition); err == nil && p.Deserted() {
				continue
			}
		}
		add(partitionOf(id), l.Dir().ID())
	}
	if replicas != nil {
		for _, tp := range replicas.Missing() {
			dir, _ := img.Placement(b.Self, tp)
			add(tp, dir)
		}
	}
	return list
}

// Confirm has log directories remember their registration: the cluster whose metadata other brokers
// may have, too.
func (c *Cluster) Confirm(dirs []*storage.Dir) (err error) {
	var o checkpoint.Owner
	if c.Linked() {
		if o.Cluster, err = metadata.ParseID(c.ID()); err != nil {
			return fmt.Errorf("the id of the cluster: %w", err)
		}
		o.Generation = c.Store().Generation()
	}
	for _, d := range dirs {
		d.Confirm(o)
	}
	return nil
}
