package service

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Two places define Kafka's defaults; they must agree.
func TestDefaultsOfTransactionsAreKafkas(t *testing.T) {
	conf, err := registry(t).ResolveBroker(nil)
	must(t, err)
	if got, want := shardConfig(&conf.Transactions), txn.DefaultConfig(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// withTransactions starts a broker with a transaction coordinator, whose transactions have no
// partitions.
func withTransactions(t *testing.T) (b *broker, tr *Transactions) {
	t.Helper()
	fs := vfs.Memory()
	must(t, vfs.MakeDir(fs, "/metadata"))
	must(t, vfs.MakeDir(fs, "/logs"))
	lastID := int64(0)
	b, stop := startWith(t, fs, func(b *broker) {
		var err error
		tr, err = NewTransactions(TransactionsOptions{
			Options: Options{Self: 1, Replicas: b.replicas, Controller: b.control, Logger: zap.NewNop()},
			Configs: b.configs, Settings: b.settings,
			ProducerID: func(context.Context) (int64, error) { lastID++; return lastID, nil },
			Version:    func(*metadata.Image) int16 { return 2 },
		})
		must(t, err)
		b.add(tr.Service)
	})
	t.Cleanup(stop)
	return b, tr
}

// initialize sends InitProducerID until it is answered.
func initialize(t *testing.T, tr *Transactions, id string) txn.Identity {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		answered := make(chan any, 1)
		tr.Submit(id, txn.InitProducerID{ID: id, Timeout: 1000, ProducerID: -1, Epoch: -1}, func(answer any, err error) {
			if err != nil {
				answer = err
			}
			answered <- answer
		})
		answer := <-answered
		if got, ok := answer.(txn.Identity); ok {
			return got
		}
		must(t, tr.Ensure())
		if time.Now().After(end) {
			t.Fatal(answer)
		}
	}
}

func TestTheFirstProducerCreatesTheTopicOfTransactions(t *testing.T) {
	b, tr := withTransactions(t)
	for epoch := range int16(2) {
		if got := initialize(t, tr, "id"); got != (txn.Identity{ProducerID: 1, Epoch: epoch}) {
			t.Errorf("%+v", got)
		}
	}
	topic := b.applier.Image().Topic(TransactionsTopic)
	want := map[string]string{"cleanup.policy": "compact", "min.insync.replicas": "2", "segment.bytes": "104857600",
		"compression.type": "producer", configdef.DurabilityProfile: durability.Default}
	if !topic.Internal || topic.Partitions.Len() != 50 || !reflect.DeepEqual(topic.Configs, want) {
		t.Errorf("%+v", topic)
	}
}

// A partition knows a coordinator epoch that no coordinator has had. Without a higher epoch, no
// transaction of that partition would ever end.
func TestAFencedCoordinatorGetsAHigherEpoch(t *testing.T) {
	b, tr := withTransactions(t)
	initialize(t, tr, "id")
	index, _ := tr.Partition("id")
	now := func() *metadata.Partition { return b.applier.Image().Topic(TransactionsTopic).Partitions.At(index) }
	epoch, gap := now().LeaderEpoch, metadata.Gap(b.applier.Image().Generation())
	for _, known := range []int32{epoch, epoch - 1} {
		tr.Fenced(index, epoch, known)
	}
	tr.Fenced(index, epoch+1, epoch+9) // another coordinator leads
	if tr.work.Wait(); now().LeaderEpoch != epoch {
		t.Fatalf("raised to %d", now().LeaderEpoch)
	}
	tr.Fenced(index, epoch, 41)
	tr.Fenced(index, epoch, 43) // one request at a time
	for end := time.Now().Add(time.Minute); now().LeaderEpoch != 41+gap; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("epoch %d", now().LeaderEpoch)
		}
	}
	if got := initialize(t, tr, "id"); got != (txn.Identity{ProducerID: 1, Epoch: 1}) {
		t.Errorf("after the epoch was raised: %+v", got)
	}
	tr.Stop()
	tr.Fenced(index, 42, 50)
}

// Shards are notified of changes that matter to transactions, and of nothing else.
func TestMetadataChangesForTransactions(t *testing.T) {
	version := int16(2)
	settings := replica.NewTopicSettings(replica.SettingsOptions{Self: 1, Configs: registry(t), Logger: zap.NewNop()})
	tr, err := NewTransactions(TransactionsOptions{Options: alone(t), Configs: registry(t),
		Settings: settings, Version: func(*metadata.Image) int16 { return version }})
	must(t, err)
	defer tr.Close()
	img := image(t, 1, map[string]int32{"a": 2})
	if e := tr.changeEvent(img, metadata.Diff(img, img)).(txn.TopicsChanged); !e.Tagged || e.Changed != nil {
		t.Errorf("the first version: %+v", e)
	}
	if e := tr.changeEvent(img, &metadata.Delta{Liveness: []int32{1}, GroupConfigs: []string{"g"}}); e != nil {
		t.Errorf("no topic has changed: %+v", e)
	}
	prev := epochs(t, map[string][]int32{"old": {0}, "moved": {1, 1}, "grown": {1}, "isr": {1}})
	next := epochs(t, map[string][]int32{"added": {0}, "moved": {1, 2}, "grown": {1, 0}, "isr": {1}})
	d := metadata.Diff(prev, next)
	if len(d.Created) != 1 || len(d.Deleted) != 1 || len(d.Changed) != 3 {
		t.Fatalf("%+v", d)
	}
	e := tr.changeEvent(next, d).(txn.TopicsChanged)
	slices.Sort(e.Changed)
	if !slices.Equal(e.Changed, []string{"added", "grown", "moved"}) {
		t.Errorf("%q", e.Changed)
	}
	version = 0
	if e, ok := tr.changeEvent(img, &metadata.Delta{Cluster: true}).(txn.TopicsChanged); !ok || e.Tagged {
		t.Errorf("transaction.version 0: %+v", e)
	}
	for p, want := range map[txn.Partition]bool{{Topic: "moved", Index: 1}: true, {Topic: "moved", Index: 2}: false,
		{Topic: "old"}: false, {Topic: "moved", Index: -1}: false} {
		if e.Topics.Exists(p) != want {
			t.Errorf("%v exists: %v", p, !want)
		}
	}
}

// A marker in a topic of a coordinator would keep it from loading; only groups have markers.
func TestTransactionsHaveNoPartitionsOfInternalTopics(t *testing.T) {
	b, tr := withTransactions(t)
	initialize(t, tr, "id")
	view := tr.topics(b.applier.Image()).Topics
	if b.applier.Image().Topic(TransactionsTopic) == nil || view.Exists(txn.Partition{Topic: TransactionsTopic}) {
		t.Error("a transaction may have a partition of " + TransactionsTopic)
	}
}

// A commit must flush the topics whose profile acknowledges records before they are durable.
func TestWeakTopicsAreThoseThatAcknowledgeEarly(t *testing.T) {
	b, tr := withTransactions(t)
	for _, profile := range []string{"sync", "os", "interval"} {
		made, err := b.control.CreateTopic(t.Context(), controller.TopicSpec{Name: profile, Partitions: 1, ReplicationFactor: 1,
			Configs: map[string]*string{configdef.DurabilityProfile: &profile}})
		must(t, err)
		must(t, b.applier.WaitFor(t.Context(), made.Revision))
	}
	view := tr.topics(b.applier.Image()).Topics
	var weak []string
	for _, topic := range []string{"sync", "os", "interval", "missing"} {
		if view.Weak(topic) {
			weak = append(weak, topic)
		}
	}
	if strings.Join(weak, " ") != "os interval" {
		t.Errorf("%q", weak)
	}
}

// lastRevision makes every image differ from those before in all its records.
var lastRevision int64

// epochs returns an image with topics whose partitions have the given leader epochs; a topic's id
// is its first letter.
func epochs(t *testing.T, topics map[string][]int32) *metadata.Image {
	t.Helper()
	lastRevision++
	var kvs []metadata.KV
	for name, list := range topics {
		id := [16]byte{name[0]}
		kvs = append(kvs, metadata.KV{Key: metadata.NameKey(name), Value: metadata.Name{Topic: name, ID: id}.Encode()},
			metadata.KV{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: name, Partitions: int32(len(list))}.Encode()})
		for i, epoch := range list {
			p := metadata.Partition{Leader: 1, LeaderEpoch: epoch, Replicas: []int32{1}, ISR: []int32{1}}
			kvs = append(kvs, metadata.KV{Key: metadata.PartitionKey(id, int32(i)), Value: p.Encode()})
		}
	}
	for i := range kvs {
		kvs[i].ModRevision = lastRevision
	}
	img, err := metadata.Load(kvs, lastRevision)
	must(t, err)
	return img
}
