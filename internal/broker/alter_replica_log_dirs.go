package broker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/storage"
)

// AlterReplicaLogDirs (key 34), versions 1 and 2 (KIP-113): moves logs of this broker to other
// directories. It is answered when the move is durable as an intention; DescribeLogDirs shows how
// far it is. A replica that this broker does not have yet gets its log in the directory, as long as
// the process runs, and the answer is REPLICA_NOT_AVAILABLE, as in Kafka.
func alterReplicaLogDirsAPI() api {
	return apiDef[*kmsg.AlterReplicaLogDirsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.AlterReplicaLogDirs), Min: 1, Max: 2},
		asks:         clusterAsks[*kmsg.AlterReplicaLogDirsRequest](acl.Alter),
		refuse: func(r *network.Request, req *kmsg.AlterReplicaLogDirsRequest, code *kerr.Error) kmsg.Response {
			return answerMoves(r, req, func(string, string, int32) int16 { return code.Code })
		},
		overloaded: kerr.RequestTimedOut,
		route:      route[*kmsg.AlterReplicaLogDirsRequest]{by: byNone},
		handle:     onDisk(alterReplicaLogDirs),
	}.api()
}

func alterReplicaLogDirs(ctx context.Context, b *Handler, r *network.Request, req *kmsg.AlterReplicaLogDirsRequest) kmsg.Response {
	img := b.image()
	return answerMoves(r, req, func(dir, topic string, partition int32) int16 {
		err := b.moveLog(ctx, img, dir, topic, partition)
		c := code(err)
		if errors.Is(err, storage.ErrMoving) { // a move that can't be canceled stands still
			c = kerr.KafkaStorageError.Code
		}
		if c == kerr.KafkaStorageError.Code || c == kerr.UnknownServerError.Code {
			b.opt.Logger.Warn("a log is not moved", zap.String("topic", topic), zap.Int32("partition", partition), zap.String("to", dir),
				zap.Error(err))
		}
		return c
	})
}

// answerMoves answers each move of a request.
func answerMoves(r *network.Request, req *kmsg.AlterReplicaLogDirsRequest,
	of func(dir, topic string, partition int32) int16) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrAlterReplicaLogDirsResponse())
	at := map[string]int{}
	for i := range req.Dirs {
		for _, t := range req.Dirs[i].Topics {
			k, known := at[t.Topic]
			if !known {
				k = len(resp.Topics)
				at[t.Topic] = k
				out := kmsg.NewAlterReplicaLogDirsResponseTopic()
				out.Topic = t.Topic
				resp.Topics = append(resp.Topics, out)
			}
			for _, p := range t.Partitions {
				one := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				one.Partition, one.ErrorCode = p, of(req.Dirs[i].Dir, t.Topic, p)
				if one.ErrorCode != 0 {
					r.Code = one.ErrorCode
				}
				resp.Topics[k].Partitions = append(resp.Topics[k].Partitions, one)
			}
		}
	}
	return resp
}

// moveLog has the log of a partition moved to a directory of this broker.
func (b *Handler) moveLog(ctx context.Context, img *metadata.Image, dir, topic string, partition int32) error {
	to, err := b.dirAt(dir)
	if err != nil {
		return err
	}
	t := img.Topic(topic)
	if t == nil || t.Partitions.At(partition) == nil {
		return kerr.UnknownTopicOrPartition
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout) // a disk that hangs holds up the end of another move
	defer cancel()
	_, there := b.opt.Replicas.Partition(t.ID, partition)
	if err := b.opt.Replicas.Move(ctx, metadata.TopicPartition{Topic: t.ID, Partition: partition}, to); err != nil {
		return err
	}
	if there != nil {
		return kerr.ReplicaNotAvailable
	}
	return nil
}

// dirAt returns the log directory with a path.
func (b *Handler) dirAt(dir string) (*storage.Dir, error) {
	is := func(path string) bool {
		whole, err := filepath.Abs(path)
		return path == dir || err == nil && whole == filepath.Clean(dir)
	}
	for _, d := range b.opt.Replicas.Dirs() {
		if is(d.Path()) {
			err := d.Err()
			return d, err
		}
	}
	for _, d := range b.opt.Replicas.FailedDirs() {
		if is(d.Path) {
			return nil, fmt.Errorf("%w: %w", storage.ErrFailed, d)
		}
	}
	return nil, kerr.LogDirNotFound
}
