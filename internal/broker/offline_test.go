package broker

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A directory was lost between two starts: its partitions have no leader, the topic is still
// described, and a new one can be created.
func TestALostLogIsAnOfflineReplicaWithoutALeader(t *testing.T) {
	fs := vfs.Memory()
	t.Run("before", func(t *testing.T) { newNode(t, func(o *nodeOptions) { o.fs = fs }).topic(t, "t", 2) })
	must(t, fs.RemoveAll("/data/logs"))
	n := newNode(t, func(o *nodeOptions) { o.fs = fs })
	w := n.dial(t)
	for _, p := range ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(false, "t")).Topics[0].Partitions {
		got := fmt.Sprint(p.ErrorCode, p.Leader, p.Replicas, p.ISR, p.OfflineReplicas)
		if want := fmt.Sprint(kerr.LeaderNotAvailable.Code, -1, []int32{1}, []int32{1}, []int32{1}); got != want {
			t.Errorf("Metadata: %s, want %s", got, want)
		}
	}
	for _, p := range ask[*kmsg.DescribeTopicPartitionsResponse](t, w, 0, describe(10, "", 0)).Topics[0].Partitions {
		if p.ErrorCode != kerr.LeaderNotAvailable.Code || p.LeaderID != -1 || len(p.OfflineReplicas) != 1 {
			t.Errorf("DescribeTopicPartitions: %+v", p)
		}
	}
	wantTopics(t, n.created(t, w, 12, "new"), "new: 1")
}

// As in Kafka, a partition has its leader while the leader creates the log. Some clients keep a
// partition without a leader for good.
func TestALogThatIsBeingCreatedHasALeader(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs = disk })
	n.topic(t, "first", 1)
	free := make(chan struct{})
	disk.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/data/logs/t-0*", Before: func(errfs.Call) { <-free }})
	defer close(free)
	made, err := n.control.CreateTopic(t.Context(), controller.TopicSpec{Name: "t", Partitions: 1, ReplicationFactor: -1})
	must(t, err)
	w := n.dial(t)
	eventually(t, "its log is being created", func() bool {
		_, err := n.opt.Replicas.Partition(made.ID, 0)
		return errors.Is(err, replica.ErrCreating)
	})
	var list []kmsg.MetadataResponseTopicPartition
	eventually(t, "the topic is known", func() bool {
		list = ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(false, "t")).Topics[0].Partitions
		return len(list) == 1
	})
	p := list[0]
	if p.ErrorCode != 0 || p.Leader != 1 || len(p.OfflineReplicas) != 0 {
		t.Errorf("Metadata: %+v", p)
	}
	if got := produced(t, w, 9, produceRequest("t", made.ID, -1, plain(t, "a"))); got.ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Errorf("Produce: %+v", got)
	}
}
