package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

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
