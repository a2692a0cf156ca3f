package broker

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// The metadata change while a request is answered, each time at another place where the handler
// asks for the client's rights. One transaction changes two topics: the answer shows both as they
// were before it, or both as they are after it.
func TestI16AnAnswerShowsOneImage(t *testing.T) {
	var left atomic.Int64 // questions for rights until the metadata change
	var change func()
	n := newNode(t, func(o *nodeOptions) {
		o.broker = func(b *Options) {
			b.Rules = func() *acl.Rules {
				if left.Add(-1) == 0 {
					change()
				}
				return nil
			}
		}
	})
	topics := [][16]byte{n.topic(t, "a", 1), n.topic(t, "b", 1)}
	change = func() {
		var kvs []metadata.KV
		for _, id := range topics {
			p := *n.image().Partition(metadata.TopicPartition{Topic: id})
			p.LeaderEpoch++
			p.PartitionEpoch++
			kvs = append(kvs, metadata.KV{Key: metadata.PartitionKey(id, 0), Value: p.Encode()})
		}
		rev, err := n.store.Txn(t.Context(), metadata.Txn{Put: kvs})
		if err == nil {
			err = n.applier.WaitFor(t.Context(), rev)
		}
		if err != nil {
			t.Error(err)
		}
	}
	w := n.dial(t)
	described := func(names ...string) (epochs []int32) {
		req := kmsg.NewPtrMetadataRequest()
		for _, name := range names {
			one := kmsg.NewMetadataRequestTopic()
			one.Topic = &name
			req.Topics = append(req.Topics, one)
		}
		for _, topic := range ask[*kmsg.MetadataResponse](t, w, 12, req).Topics {
			epochs = append(epochs, topic.Partitions[0].LeaderEpoch)
		}
		return epochs
	}
	for name, epochs := range map[string]func() []int32{
		"all topics":   func() []int32 { return described() },
		"named topics": func() []int32 { return described("a", "b") },
		"a page of topics": func() (epochs []int32) {
			req := kmsg.NewPtrDescribeTopicPartitionsRequest()
			req.ResponsePartitionLimit = 9
			for _, topic := range ask[*kmsg.DescribeTopicPartitionsResponse](t, w, 0, req).Topics {
				epochs = append(epochs, topic.Partitions[0].LeaderEpoch)
			}
			return epochs
		},
	} {
		for at := int64(1); ; at++ {
			left.Store(at)
			got := epochs()
			if left.Load() > 0 { // it asks less often
				if at == 1 {
					t.Errorf("%s: the handler asks for no rights", name)
				}
				break
			}
			if len(got) != 2 || got[0] != got[1] {
				t.Errorf("%s, a change at question %d: topics of leader epochs %v in one answer", name, at, got)
			}
		}
	}
}
