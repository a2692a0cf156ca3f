package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// A broker whose log directory was removed writes what its journal held to a quarantine file when
// it stops. The next start makes a new directory, whose checkpoint does not list the log. While the
// partition has no leader, these records may be the last copy: they are missing, and a repair makes
// a log of them, which the broker accepts in the place of the lost one.
func TestALogIsMadeAgainFromQuarantinedFrames(t *testing.T) {
	former := [16]byte{9}
	for _, leader := range []int32{-1, 1} {
		s := &site{TB: t, fs: crashfs.New(1)}
		s.must(s.fs.MkdirAll(data))
		d, err := storage.OpenDir(storage.Location{Path: data + "/logs"}, options(s.fs))
		s.must(err)
		id := d.ID()
		s.must(d.Registered(checkpoint.Owner{Cluster: [16]byte{7}}))
		s.must(d.Close())
		s.fs = s.fs.KillImage(1)
		topic, p := idOf(0).Topic, metadata.Partition{Leader: leader, Replicas: []int32{1, 2}}
		if leader >= 0 {
			p.ISR = []int32{leader}
		}
		keys := []metadata.KV{{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "x"}.Encode()},
			{Key: metadata.BrokerKey(2), Value: metadata.Broker{Incarnation: [16]byte{1}, Member: 5,
				Dirs: []metadata.BrokerDir{{ID: id}}}.Encode()},
			{Key: metadata.NameKey("a"), Value: metadata.Name{Topic: "a", ID: topic}.Encode()},
			{Key: metadata.TopicKey(topic), Value: metadata.TopicRecord{Name: "a", Partitions: 1}.Encode()},
			{Key: metadata.PartitionKey(topic, 0), Value: p.Encode()},
			{Key: metadata.PlacementKey(2, topic), Value: new(metadata.Placement).With(map[int32][16]byte{0: former}).Encode()}}
		for i := range keys {
			keys[i].ModRevision = 1
		}
		store, err := raftstore.Open(raftstore.Options{FS: s.fs, Dir: data + "/metadata", Log: zap.NewNop()})
		s.must(err)
		s.must(store.Bootstrap(raftstore.Initial{Generation: [16]byte{1}, Voters: []uint64{store.Member()}, Revision: 1, Keys: keys}))
		s.must(store.Close())
		name := fmt.Sprintf("%s/logs/%x-0-3.frames", data, topic)
		f, err := s.fs.Create(name)
		s.must(err)
		frames, end := framesOf(t, idOf(0))
		_, err = f.WriteAt(frames, 0)
		s.must(err)
		s.must(f.Close())

		found, err := found(t, s.fs)
		s.must(err)
		if leader >= 0 {
			if left := found.Plan().Left; len(found.Missing()) != 0 || len(left) != 1 ||
				!strings.Contains(left[0].Restore, "another broker leads") {
				t.Errorf("another broker leads: %+v", found.Plan())
			}
			continue
		}
		if m := found.Missing(); len(m) != 1 || m[0] != (inspect.Loss{Topic: "a", From: 0, To: end}) {
			t.Errorf("missing: %+v", m)
		}
		o, err := inspect.Find(s.fs, []string{data}, nil)
		s.must(err)
		o.LastCopy = true
		r, err := inspect.Begin(context.Background(), o, "a test")
		s.must(err)
		if loses := r.Plan().Loses(); len(loses) != 0 {
			t.Errorf("the repair loses %+v", loses)
		}
		s.must(r.Do(context.Background(), "/backup"))
		if !r.Inspection().Clean() {
			t.Errorf("after the repair: %+v", r.Inspection().Findings)
		}
		s.must(r.Close())
		d, err = storage.OpenDir(storage.Location{Path: data + "/logs"}, options(s.fs))
		s.must(err)
		l := logsOf(d)["a"]
		if l == nil || l.Err() != nil || l.Ends().LogEnd != end || l.MovedFrom() != former {
			t.Errorf("the log %v", l)
		}
		s.must(d.Close())
	}
}

// framesOf returns the frames of a log in the journal of another directory, and the log's end.
func framesOf(t *testing.T, id storage.ID) (encoded []byte, end int64) {
	disk := dataDir(t)
	files, err := journal.Files(disk, data+"/logs/journal", 0)
	for i := 0; err == nil && i < len(files); i++ {
		_, err = journal.Walk(disk, data+"/logs/journal", files[i].Seq, func(f journal.FrameAt) error {
			if f.Stream == id {
				encoded, end = f.Encode(encoded), f.NextEnd
			}
			return nil
		})
	}
	if err != nil || end == 0 {
		t.Fatalf("no frames: %v", err)
	}
	return encoded, end
}
