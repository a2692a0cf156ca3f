package broker

import (
	"context"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/network"
)

// What the APIs about states of share groups (keys 83 to 87) have in common. Kafka's brokers send
// them to each other, and here tools do. The brokers of this cluster have calls of their own
// (package sharestate/desk), as the requests lack what tells two states of a share partition apart.

// sharesNamed returns the share partitions that a request names, in its order. The requests have
// the same fields, but types of their own.
func sharesNamed[R kmsg.Request](req R) (keys []format.Key) {
	v := reflect.ValueOf(req).Elem()
	group, topics := v.FieldByName("GroupID").String(), v.FieldByName("Topics")
	for i := range topics.Len() {
		t := topics.Index(i)
		id, partitions := t.FieldByName("TopicID").Interface().([16]byte), t.FieldByName("Partitions")
		field, _ := partitions.Type().Elem().FieldByName("Partition")
		for j := range partitions.Len() {
			index := partitions.Index(j).FieldByIndex(field.Index).Int()
			keys = append(keys, format.Key{Group: group, Topic: id, Partition: int32(index)})
		}
	}
	return keys
}

// coordinatorKeys returns what decides on the coordinators of keys.
func coordinatorKeys(keys []format.Key) []string {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = k.Coordinator()
	}
	return texts
}

// askShares asks the coordinators of this broker about share partitions, and waits until all have
// answered or ctx ends. event builds the event for some of the keys, whose answer is a []G. failed
// makes the result of a key without an answer.
func askShares[G any](ctx context.Context, b *Handler, keys []format.Key, event func(at []int) any, failed func(*kerr.Error) G) []G {
	return askShards(ctx, b, b.opt.Shares, keys, event, failed)
}

func askShards[G any](ctx context.Context, b *Handler, of shards, keys []format.Key, event func(at []int) any, failed func(*kerr.Error) G,
) []G {
	answered := make(chan []G, 1)
	perShard(b, of, coordinatorKeys(keys), event, func(_ string, code *kerr.Error) G { return failed(code) },
		func(list []G) { answered <- list })
	select {
	case list := <-answered:
		return list
	case <-ctx.Done():
	}
	list := make([]G, len(keys))
	for i := range list {
		list[i] = failed(kerr.RequestTimedOut)
	}
	return list
}

// sharesTime bounds a request by share.coordinator.write.timeout.ms.
func (b *Handler) sharesTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.opt.Shares.WriteTime())
}

// pick returns the items at some indexes.
func pick[T any](items []T, at []int) []T {
	some := make([]T, len(at))
	for k, i := range at {
		some[k] = items[i]
	}
	return some
}

// Results of keys without an answer.

func failedShare(code *kerr.Error) *kerr.Error { return code }

func failedPeek(code *kerr.Error) sharestate.Peeked { return sharestate.Peeked{Err: code} }

func failedOpen(code *kerr.Error) sharestate.Opened { return sharestate.Opened{Err: code} }

func failedState(code *kerr.Error) sharestate.State { return sharestate.State{Err: code} }

func failedSummary(code *kerr.Error) sharestate.Summary { return sharestate.Summary{Err: code} }

// setShareError sets the error of a partition.
func setShareError(r *network.Request, code *int16, text **string, err *kerr.Error) {
	if setCode(r, code, err); err != nil {
		*text = kmsg.StringPtr(err.Description)
	}
}
