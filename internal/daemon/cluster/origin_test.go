package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/filestore"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

const (
	fileAt  = "/d/metadata"
	groupAt = "/d/cluster"
	// proposed is the prefix of keys that a test proposes to the new cluster.
	proposed = "/names/proposed-"
)

var errAlone = errors.New("there is no other member")

// unreachable implements raftstore.Peers for a member without others.
type unreachable struct{}

// Send implements raftstore.Peers.
func (unreachable) Send(uint64, []byte) {}

// Call implements raftstore.Peers.
func (unreachable) Call(context.Context, uint64, []byte) ([]byte, error) { return nil, errAlone }

// single writes the metadata of broker 1, which has no cluster.
func single(t *testing.T, fsys vfs.FS) (keys []metadata.KV, revision int64) {
	t.Helper()
	record := metadata.Cluster{ID: metadata.FormatID([16]byte{5}), Generation: [16]byte{6}, FeatureLevel: metadata.MaxFeatureLevel}
	keys = []metadata.KV{
		{Key: metadata.BrokerKey(1), Value: metadata.Broker{Incarnation: [16]byte{9}}.Encode(), ModRevision: 6},
		{Key: metadata.ClusterKey, Value: record.Encode(), ModRevision: 2},
		{Key: metadata.NameKey("t"), Value: []byte("{}"), ModRevision: 7},
	}
	for _, dir := range []string{"/d", fileAt} {
		if err := vfs.MakeDir(fsys, dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := filestore.Write(fsys, fileAt, keys, 8); err != nil {
		t.Fatal(err)
	}
	return keys, 8
}

func readOrigin(fsys vfs.FS, node int32) (*Origin, error) {
	return ReadOrigin(context.Background(), OriginOptions{
		FS: fsys, Dir: fileAt, Group: groupAt, Node: node, Check: func(*filestore.Store) error { return nil },
	})
}

// startMember does with a data directory what the start of a broker does whose cluster.name is set
// and whose seeds have no cluster, proposes a key and stops. It adds the key to acked if that was
// acknowledged.
func startMember(ctx context.Context, fsys vfs.FS, key string, acked *[]string) (err error) {
	alone, _, err := Survey(fsys, fileAt, groupAt)
	if err != nil {
		return err
	}
	var origin *Origin
	if alone {
		if origin, err = readOrigin(fsys, 1); err != nil {
			return err
		}
	}
	if err := vfs.MakeDir(fsys, groupAt); err != nil {
		return err
	}
	s, err := openStore(raftstore.Options{FS: fsys, Dir: groupAt, Peers: unreachable{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if origin != nil {
		initial, err := origin.initial(s.Member())
		if err == nil {
			err = s.Bootstrap(initial)
		}
		if err != nil {
			return err
		}
	}
	_, err = s.Txn(ctx, metadata.Txn{Put: []metadata.KV{{Key: proposed + key, Value: []byte("x")}}})
	if err == nil {
		*acked = append(*acked, proposed+key)
	}
	return err
}

// taken returns what is wrong with the metadata of the cluster, "" if it is all that the broker
// had, with the same revisions and cluster id, and what was acknowledged since.
func taken(fsys vfs.FS, had []metadata.KV, revision int64, acked []string) string {
	c, err := raftstore.Read(fsys, groupAt)
	if err != nil {
		return err.Error()
	}
	var keys []metadata.KV
	added := map[string]bool{}
	for _, key := range c.Keys {
		if strings.HasPrefix(key.Key, proposed) {
			added[key.Key] = true
		} else {
			keys = append(keys, key)
		}
	}
	for _, key := range acked {
		if !added[key] && c.Pending == 0 { // what is pending is applied by the next start
			return key + " was acknowledged and is missing"
		}
	}
	for i, key := range keys {
		if i >= len(had) || key.Key != had[i].Key || key.ModRevision != had[i].ModRevision {
			return fmt.Sprintf("key %d: %v", i, key)
		}
		if key.Key != metadata.ClusterKey {
			if !bytes.Equal(key.Value, had[i].Value) {
				return "another value of " + key.Key
			}
			continue
		}
		before, _ := metadata.DecodeCluster(had[i])
		record, err := metadata.DecodeCluster(key)
		if err != nil || record.ID != before.ID || record.Generation == before.Generation || record.Generation != c.Generation {
			return fmt.Sprintf("cluster %+v (%v), generation %x", record, err, c.Generation)
		}
	}
	if len(keys) != len(had) || c.Revision != revision+int64(len(added)) || !slices.Equal(c.Voters, []uint64{c.Member}) {
		return fmt.Sprintf("%d of %d keys, revision %d after %d, voters %x of member %x",
			len(keys), len(had), c.Revision, revision, c.Voters, c.Member)
	}
	return ""
}

// afterCrash checks a data directory after a crash: either the broker is what it was, or the
// cluster has everything. Another start completes the change.
func afterCrash(t *testing.T, disk vfs.FS, had []metadata.KV, revision int64, acked []string) {
	t.Helper()
	alone, clustered, err := Survey(disk, fileAt, groupAt)
	switch {
	case err != nil || alone == clustered:
		t.Fatalf("the next start finds alone %v, clustered %v, %v", alone, clustered, err)
	case alone:
		c, err := filestore.Check(disk, fileAt)
		if err != nil || c.Revision != revision || len(c.Keys) != len(had) || len(acked) > 0 {
			t.Fatalf("revision %d, %d keys, acknowledged %q, %v", c.Revision, len(c.Keys), acked, err)
		}
	default:
		if wrong := taken(disk, had, revision, acked); wrong != "" {
			t.Fatal(wrong)
		}
	}
	acked = slices.Clone(acked)
	if err := startMember(t.Context(), disk, "last", &acked); err != nil {
		t.Fatalf("the next start: %v", err)
	}
	if wrong := taken(disk, had, revision, acked); wrong != "" {
		t.Fatalf("after the next start: %s", wrong)
	}
	if alone, clustered, err := Survey(disk, fileAt, groupAt); alone || !clustered || err != nil {
		t.Fatalf("after the next start: alone %v, clustered %v, %v", alone, clustered, err)
	}
}

// I6, I7: a process that makes the metadata of a broker those of a cluster dies at every call of
// its disk, also of the next start, and the power fails.
func TestBeginningSurvivesACrashAtEveryCall(t *testing.T) {
	for call := 0; ; call++ {
		crashed := false
		for _, die := range []func(*crashfs.FS, int){(*crashfs.FS).CrashAt, (*crashfs.FS).CrashDuring} {
			disk := crashfs.New(uint64(call))
			keys, revision := single(t, disk)
			die(disk, disk.Ops()+call)
			var acked []string
			_ = startMember(t.Context(), disk, "first", &acked) // it ends with the crash
			crashed = crashed || disk.Crashed()
			afterCrash(t, disk.KillImage(1), keys, revision, acked)
			for _, m := range crashfs.Modes() { // a kill, and a power failure after the next start
				image, more := disk.KillImage(2), slices.Clone(acked)
				if err := startMember(t.Context(), image, "second", &more); err != nil {
					t.Fatalf("call %d: the start after a kill: %v", call, err)
				}
				afterCrash(t, image.PowerLossImage(m, 1), keys, revision, more)
			}
			for _, m := range crashfs.Modes() {
				for seed := range uint64(2) {
					image := disk.PowerLossImage(m, seed)
					die(image, image.Ops()+call/2)
					more := slices.Clone(acked)
					_ = startMember(t.Context(), image, "second", &more)
					afterCrash(t, image.PowerLossImage(m, seed), keys, revision, more)
				}
			}
			if t.Failed() {
				t.Fatalf("at call %d", call)
			}
		}
		if !crashed {
			if call < 20 {
				t.Errorf("only %d calls", call)
			}
			return
		}
	}
}

// I7: a call of the disk fails while a broker becomes the first member of a cluster, and the next
// start has everything. Without the metadata, it would form an empty cluster with the other seeds.
func TestBeginningSurvivesAnErrorOfEveryCall(t *testing.T) {
	for call, failed := 1, true; failed; call++ {
		synctest.Test(t, func(t *testing.T) {
			disk := crashfs.New(uint64(call))
			keys, revision := single(t, disk)
			fsys := errfs.New(disk)
			var hit atomic.Bool
			fsys.Add(errfs.Rule{From: call, Count: 1, Err: syscall.EIO, Before: func(errfs.Call) { hit.Store(true) }})
			var acked []string
			_ = startMember(t.Context(), fsys, "first", &acked)
			afterCrash(t, disk.KillImage(1), keys, revision, acked)
			failed = hit.Load()
		})
		if t.Failed() || !failed && call < 20 {
			t.Fatalf("at call %d", call)
		}
	}
}

func TestAnOriginIsRefused(t *testing.T) {
	t.Run("another node.id", func(t *testing.T) {
		disk := vfs.Memory()
		single(t, disk)
		_, err := readOrigin(disk, 3)
		if !errors.Is(err, membership.ErrRefused) || !strings.Contains(err.Error(), "set node.id=1") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("an earlier one is kept", func(t *testing.T) {
		disk := vfs.Memory()
		single(t, disk)
		if err := disk.MkdirAll(fileAt + retired); err != nil {
			t.Fatal(err)
		}
		if _, err := readOrigin(disk, 1); !errors.Is(err, membership.ErrRefused) || !strings.Contains(err.Error(), retired) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the metadata were put back", func(t *testing.T) {
		disk := vfs.Memory()
		single(t, disk)
		if err := startMember(t.Context(), disk, "x", new([]string)); err != nil {
			t.Fatal(err)
		}
		if err := disk.Rename(fileAt+retired, fileAt); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Survey(disk, fileAt, groupAt); err == nil {
			t.Error("both count")
		}
	})
	t.Run("nothing was registered", func(t *testing.T) {
		disk := vfs.Memory()
		if err := errors.Join(vfs.MakeDir(disk, "/d"), vfs.MakeDir(disk, fileAt), filestore.Write(disk, fileAt, nil, 0)); err != nil {
			t.Fatal(err)
		}
		if o, err := readOrigin(disk, 3); o != nil || err != nil {
			t.Errorf("%v, %v", o, err)
		}
		if alone, _, _ := Survey(disk, fileAt, groupAt); alone {
			t.Error("it still counts")
		}
	})
}
