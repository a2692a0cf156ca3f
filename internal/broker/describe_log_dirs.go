package broker

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
)

// DescribeLogDirs (key 35), versions 1 to 5: the logs of each directory, their sizes and the free
// space (KIP-113, KIP-827). The copy of a log that moves to a directory is a future log there; its
// lag is how many offsets it lacks. A directory that could not be opened is listed with an error
// and without logs. The handler calls file systems, so it runs on a goroutine of its own.
func describeLogDirsAPI() api {
	return apiDef[*kmsg.DescribeLogDirsRequest]{
		API:         protocol.API{Key: int16(kmsg.DescribeLogDirs), Min: 1, Max: 5},
		asks:        clusterAsks[*kmsg.DescribeLogDirsRequest](acl.Describe),
		overloaded:  kerr.RequestTimedOut,
		answerBytes: func(b *Handler, _ *kmsg.DescribeLogDirsRequest) int64 { return entryAnswer * b.logs() },
		route:       route[*kmsg.DescribeLogDirsRequest]{by: byNone},
		handle:      onDisk(describeLogDirs),
	}.api()
}

// logs returns how many logs this broker has.
func (b *Handler) logs() (n int64) {
	for _, d := range b.opt.Replicas.Dirs() {
		n += int64(len(d.Logs()))
	}
	return n
}

func describeLogDirs(_ context.Context, b *Handler, r *network.Request, req *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeLogDirsResponse())
	wanted := wantedLogs(req)
	img, moves := b.image(), b.opt.Replicas.Moves()
	for _, d := range b.opt.Replicas.Dirs() {
		out := kmsg.NewDescribeLogDirsResponseDir()
		out.Dir = d.Path()
		if err := d.Err(); err != nil {
			out.ErrorCode = kerr.KafkaStorageError.Code
			r.Code = out.ErrorCode
		}
		if available, total, err := d.Space(); err == nil {
			out.UsableBytes, out.TotalBytes = available, total
		}
		out.Topics = b.describedLogs(img, d, moves, wanted)
		resp.Dirs = append(resp.Dirs, out)
	}
	for _, d := range b.opt.Replicas.FailedDirs() {
		out := kmsg.NewDescribeLogDirsResponseDir()
		out.Dir, out.ErrorCode = d.Path, kerr.KafkaStorageError.Code
		r.Code = out.ErrorCode
		resp.Dirs = append(resp.Dirs, out)
	}
	return resp
}

// wantedLogs returns the requested partitions; nil for all.
func wantedLogs(req *kmsg.DescribeLogDirsRequest) map[topicPartition]bool {
	if req.Topics == nil {
		return nil
	}
	wanted := map[topicPartition]bool{}
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			wanted[topicPartition{req.Topics[i].Topic, p}] = true
		}
	}
	return wanted
}

// recordedIn returns the directory in which a log is described: its own, or the one from which it
// has moved until the metadata show that. Only then may that directory be taken away.
func (b *Handler) recordedIn(img *metadata.Image, l *storage.Log) [16]byte {
	at, _ := img.Placement(b.opt.Self, metadata.TopicPartition{Topic: l.ID().Topic, Partition: l.ID().Partition})
	if at != [16]byte{} && at == l.MovedFrom() {
		return at
	}
	return l.Dir().ID()
}

// describedLogs returns the wanted logs of a directory, and of the copies that moves make there, in
// the order of topics and partitions. It leaves out logs of deleted topics.
func (b *Handler) describedLogs(img *metadata.Image, d *storage.Dir, moves []storage.Move,
	wanted map[topicPartition]bool) []kmsg.DescribeLogDirsResponseDirTopic {
	topics := map[string][]kmsg.DescribeLogDirsResponseDirTopicPartition{}
	add := func(id storage.ID, topic string, size int64) *kmsg.DescribeLogDirsResponseDirTopicPartition {
		if img.TopicByID(id.Topic) == nil || wanted != nil && !wanted[topicPartition{topic, id.Partition}] {
			return nil
		}
		one := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		one.Partition, one.Size = id.Partition, size
		topics[topic] = append(topics[topic], one)
		return &topics[topic][len(topics[topic])-1]
	}
	for _, other := range b.opt.Replicas.Dirs() {
		for _, l := range other.Logs() {
			before := other.ID()
			if from := l.MovedFrom(); other == d || from == d.ID() {
				before = b.recordedIn(img, l)
			}
			if other != d && before != d.ID() {
				continue
			}
			one := add(l.ID(), l.Topic(), l.Size())
			if one == nil {
				continue
			}
			if one.IsFuture = before != d.ID(); one.IsFuture {
				continue
			}
			if p, err := b.opt.Replicas.Partition(l.ID().Topic, l.ID().Partition); err == nil {
				one.OffsetLag = p.Behind()
			}
		}
	}
	for i := range moves {
		if x := &moves[i]; x.To == d {
			if one := add(x.ID, x.Topic, x.Copied); one != nil {
				one.IsFuture, one.OffsetLag = true, x.Lag()
			}
		}
	}
	list := make([]kmsg.DescribeLogDirsResponseDirTopic, 0, len(topics))
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		out := kmsg.NewDescribeLogDirsResponseDirTopic()
		out.Topic, out.Partitions = name, topics[name]
		sorts.Sort(out.Partitions, func(a, b kmsg.DescribeLogDirsResponseDirTopicPartition) int {
			return cmp.Compare(a.Partition, b.Partition)
		})
		list = append(list, out)
	}
	return list
}
