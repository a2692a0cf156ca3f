package broker

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A request that names much, or has a large answer, waits while others hold the slots; small ones
// don't. The slot is released with the answer, or when the request is parked.
func TestLargeRequestsTakeDecodeSlots(t *testing.T) {
	const many = 10_000
	absent := make([]any, many)
	created := createRequest(true)
	deleted := kmsg.NewPtrDeleteTopicsRequest()
	deleted.TimeoutMillis = 1000
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "small"}}
	for i := range many {
		name := fmt.Sprintf("absent-%06d", i)
		absent[i] = name
		created.Topics = append(created.Topics, newTopic(name, 1, 1))
		deleted.TopicNames = append(deleted.TopicNames, name)
		offsets.Topics[0].Partitions = append(offsets.Topics[0].Partitions,
			kmsg.ListOffsetsRequestTopicPartition{Partition: int32(i), Timestamp: -1})
	}
	parked := waiting(0, 1<<20, named("small", [16]byte{}))
	parked.MaxWaitMillis, parked.Rack = 10_000, strings.Repeat("r", largeBody)
	for name, x := range map[string]struct {
		version int16
		req     kmsg.Request
		waits   bool
		wide    bool // if there is a wide topic
	}{
		"metadata of many topics":     {9, metadataRequest(false, absent...), true, false},
		"metadata of a wide topic":    {9, metadataRequest(false, "wide"), true, true},
		"metadata of all topics":      {9, kmsg.NewPtrMetadataRequest(), true, true},
		"metadata of a small topic":   {9, metadataRequest(false, "small"), false, true},
		"many topics to validate":     {5, created, true, false},
		"many topics to delete":       {5, deleted, true, false},
		"many offsets":                {5, offsets, true, false},
		"logs":                        {1, kmsg.NewPtrDescribeLogDirsRequest(), true, true},
		"a large fetch that waits":    {12, parked, true, false},
		"versions":                    {3, kmsg.NewPtrApiVersionsRequest(), false, false},
		"offsets of no partition":     {5, kmsg.NewPtrListOffsetsRequest(), false, false},
		"topics that are not deleted": {5, kmsg.NewPtrDeleteTopicsRequest(), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, quick, func(o *nodeOptions) { o.pipe = true })
				n.topic(t, "small", 1)
				if x.wide {
					n.topic(t, "wide", manyEntries+1)
				}
				for range cap(n.decodeSlots) {
					n.decodeSlots <- struct{}{}
				}
				w := n.dial(t)
				defer w.Close()
				var answered atomic.Bool
				ended := make(chan error, 1)
				x.req.SetVersion(x.version)
				go func() {
					err := w.send(x.req)
					if err == nil {
						_, err = w.receive(x.req)
					}
					answered.Store(true)
					ended <- err
				}()
				synctest.Wait()
				if answered.Load() == x.waits || n.park.Waiting() > 0 {
					t.Errorf("answered: %v", answered.Load())
				}
				for range cap(n.decodeSlots) {
					<-n.decodeSlots
				}
				synctest.Wait()
				if len(n.decodeSlots) > 0 {
					t.Error("the turn has not ended")
				}
				must(t, <-ended)
			})
		})
	}
}

// A request that waits for something else does not keep others from their slot.
func TestDecodeSlotExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make(decodeSlots, 1)
		first := all.take(t.Context())
		began := time.Now()
		second := all.take(t.Context())
		if took := time.Since(began); took != slotTime {
			t.Errorf("the second turn began after %v", took)
		}
		if first.end(); len(all) != 1 {
			t.Error("a turn that had lapsed ended another one")
		}
		if second.end(); len(all) != 0 {
			t.Error("a turn has not ended")
		}
	})
}
