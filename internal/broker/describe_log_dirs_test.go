package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// logDirs requests the contents of the directories; without topics, all.
func logDirs(t *testing.T, w *wire, version int16, topics ...kmsg.DescribeLogDirsRequestTopic) *kmsg.DescribeLogDirsResponse {
	t.Helper()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = topics
	return ask[*kmsg.DescribeLogDirsResponse](t, w, version, req)
}

// held returns the logs of an answer: topic-partition:size.
func held(resp *kmsg.DescribeLogDirsResponse) string {
	var list []string
	for _, d := range resp.Dirs {
		for _, topic := range d.Topics {
			for _, p := range topic.Partitions {
				list = append(list, fmt.Sprintf("%s-%d:%d", topic.Topic, p.Partition, p.Size))
			}
		}
	}
	return strings.Join(list, " ")
}

func TestLogDirsAreDescribed(t *testing.T) {
	n := newNode(t)
	n.topic(t, "b", 2)
	n.topic(t, "a", 1)
	gone := n.topic(t, "gone", 1)
	revision, err := n.control.DeleteTopic(t.Context(), gone)
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), revision))
	size := 3 * n.put(t, "b", 3, "v")
	w := n.dial(t)
	some := func(name string, partitions ...int32) kmsg.DescribeLogDirsRequestTopic {
		return kmsg.DescribeLogDirsRequestTopic{Topic: name, Partitions: partitions}
	}
	all := fmt.Sprintf("a-0:0 b-0:%d b-1:0", size)
	for version := int16(1); version <= 5; version++ {
		resp := logDirs(t, w, version)
		if got := held(resp); got != all || len(resp.Dirs) != 1 || resp.Dirs[0].Dir != "/data/logs" || resp.Dirs[0].ErrorCode != 0 ||
			resp.ErrorCode != 0 {
			t.Errorf("version %d: %s, want %s (%+v)", version, got, all, resp)
		}
		if d := resp.Dirs[0]; version >= 4 && (d.TotalBytes != 1<<40 || d.UsableBytes != 1<<40) {
			t.Errorf("version %d: %d of %d bytes", version, d.UsableBytes, d.TotalBytes)
		}
	}
	for _, c := range []struct {
		topics []kmsg.DescribeLogDirsRequestTopic
		want   string
	}{
		{[]kmsg.DescribeLogDirsRequestTopic{some("b", 1, 1, 9)}, "b-1:0"},
		{[]kmsg.DescribeLogDirsRequestTopic{some("b", 0), some("a", 0), some("nope", 0), some("gone", 0)},
			fmt.Sprintf("a-0:0 b-0:%d", size)},
		{[]kmsg.DescribeLogDirsRequestTopic{some("b")}, ""},
		{[]kmsg.DescribeLogDirsRequestTopic{}, ""},
	} {
		if resp := logDirs(t, w, 5, c.topics...); held(resp) != c.want && c.topics != nil || len(resp.Dirs) != 1 {
			t.Errorf("%v: %s, want %s", c.topics, held(resp), c.want)
		}
	}
}
