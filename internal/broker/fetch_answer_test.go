package broker

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// The goroutine that completes a fetch reads memory only. Records that memory does not hold are
// read later, and until then nothing is held for them.
func TestAFetchIsReadFromMemoryOrLater(t *testing.T) {
	fs := vfs.Memory()
	t.Run("before", func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.fs = fs })
		n.topic(t, "old", 1)
		n.put(t, "old", 1, "of another life: memory has it no more")
	})
	n := newNode(t, func(o *nodeOptions) { o.fs = fs })
	n.topic(t, "now", 1)
	n.put(t, "now", 1, "a")
	for _, c := range []struct {
		topics []string
		memory bool
	}{{[]string{"now"}, true}, {[]string{"old"}, false}, {[]string{"now", "old"}, false}, {[]string{"now", "none"}, true}} {
		op := &fetchRead{b: n.Handler, maxBytes: 1 << 20}
		for _, name := range c.topics {
			op.parts = append(op.parts, fetchPartition{partitionRequest: partitionRequest{topic: topicRef{name: name}, maxBytes: 1 << 20,
				currentEpoch: -1, fetchedEpoch: -1}})
		}
		op.find(-1, "")
		if got := op.read(nil); got != c.memory {
			t.Errorf("%v read from memory: %v", c.topics, got)
		}
		if !c.memory {
			if used := n.Answers().Used; used != 0 || op.held != 0 || op.parts[0].res.Size != 0 {
				t.Errorf("%v: %d bytes are held, %d of them by the fetch", c.topics, used, op.held)
			}
			if !op.read(noReaders{}) {
				t.Errorf("%v can't be read", c.topics)
			}
		}
		for i, name := range c.topics {
			if p := &op.parts[i]; (p.res.Size > 0) != (name != "none") {
				t.Errorf("%s of %v: %d bytes, %v", name, c.topics, p.res.Size, p.err)
			}
		}
		op.release()
		if used := n.Answers().Used; used != 0 {
			t.Errorf("%v: %d bytes are still held", c.topics, used)
		}
	}
}

// A fetch that reads the disk delays only its own connection.
func TestFetchFromDiskDelaysNoOther(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	t.Run("before", func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.fs = disk })
		n.topic(t, "t", 1)
		n.put(t, "t", 1, "of another life: memory has it no more")
	})
	n := newNode(t, func(o *nodeOptions) { o.fs = disk })
	n.put(t, "t", 1, "a")
	began, release := stuck(t, disk, errfs.Read)
	w := n.dial(t)
	req := fetchRequest(0, named("t", [16]byte{}))
	req.SetVersion(12)
	must(t, w.send(req))
	<-began
	n.put(t, "t", 1, "b")
	if got := show(t, ask[*kmsg.FetchResponse](t, n.dial(t), 12, fetchRequest(1, named("t", [16]byte{})))); got != "t-0[0 3: [1 2]]" {
		t.Error(got)
	}
	release()
	if got := show(t, w.fetched(t, req)); got != "t-0[0 3: [0]]" && got != "t-0[0 2: [0]]" {
		t.Error(got)
	}
}

// A fetch of more partitions than are answered promptly is still answered, whichever goroutine
// completes it.
func TestAFetchOfManyPartitionsIsCompleted(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 2*promptParts)
	w := n.dial(t)
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = "t", id
	for i := int32(1); i < 2*promptParts; i++ { // waiting adds partition 0
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes, p.CurrentLeaderEpoch = i, 1<<20, -1
		topic.Partitions = append(topic.Partitions, p)
	}
	req := waiting(0, 1, topic)
	n.parked(t, w, 12, req)
	n.put(t, "t", 1, "a")
	resp := w.fetched(t, req)
	if got := len(resp.Topics[0].Partitions); got != 2*promptParts {
		t.Errorf("%d partitions are in the answer", got)
	}
	records := 0
	for _, p := range resp.Topics[0].Partitions {
		records += len(offsets(t, p.RecordBatches))
	}
	if records != 1 {
		t.Errorf("%d records are in the answer", records)
	}
}

// noReaders has no answers that others read.
type noReaders struct{}

func (noReaders) AwaitReaders(wait func(context.Context) error) error {
	return wait(context.Background())
}
