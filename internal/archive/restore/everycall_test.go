package restore

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// tieredRestore restores the newest snapshot. Old records stay in the store.
func (w *world) tieredRestore(fsys vfs.FS) error {
	s, err := Find(context.Background(), w.store, prefix, Choice{})
	if err != nil {
		return err
	}
	profiles, err := durability.NewSet()
	must.OK(w.t, err)
	o := options(fsys)
	o.Tiered, o.Configs = true, configdef.New(configdef.Options{Profiles: profiles})
	_, err = s.Write(context.Background(), o, new(Progress))
	return err
}

// judgeTier reads the old records that stay in the store, if the metadata name any, and takes them
// out of what the disk must have.
func (w *world) judgeTier(fsys vfs.FS) error {
	ctx, id := context.Background(), format.ID{Topic: topic, Partition: plain}
	img := w.judge(fsys)
	x := img.Tier(metadata.TopicPartition{Topic: topic, Partition: plain})
	if x.Empty() {
		w.t.Fatal("no records stay in the store")
	}
	of, err := metadata.ParseID(img.ClusterID())
	must.OK(w.t, err)
	at := prefix + format.Prefix(of)
	m, err := format.ReadManifest(ctx, w.store, at, id, objects.Nonce(x.Manifest))
	if err != nil {
		return err
	}
	parts, err := m.All(ctx, w.store, at)
	if err != nil {
		return err
	}
	var got []byte
	for i := range parts {
		if err := format.ReadPart(ctx, w.store, at, id, &parts[i], func(b []byte) error {
			got = append(got, b...)
			return nil
		}); err != nil {
			return err
		}
	}
	// The first part may begin below the log start.
	all := bytes.Join(w.want[id].batches, nil)
	if i := bytes.Index(got, all[:61]); i < 0 || !bytes.HasPrefix(all, got[i:]) {
		w.t.Errorf("the store has %d bytes of the partition, which are not those of the original", len(got))
	}
	return nil
}

// everyCall reports whether the tests fail every call in every way, as in make crash.
func everyCall() bool { return os.Getenv("CHRONIK_EVERY_CALL") != "" }

// Each call of the store fails in each way: about half of these here, all in make crash. If the
// process is killed, the disk loses power as well. Until the restore has ended, no broker starts.
// It succeeds when it is repeated, and the broker has the snapshot. If the store lies about the
// list of old records, a read of them fails.
func TestEveryCallOfARestore(t *testing.T) {
	cases := faultstore.SomeCalls(t)
	if everyCall() {
		cases = faultstore.EveryCall(t)
	}
	for c := range cases {
		w := newTieredWorld(t, c.Store)
		disk := crashfs.New(1)
		c.Begin()
		err := w.tieredRestore(disk)
		c.End()
		image := disk
		if c.Killed {
			image = disk.PowerLossImage(crashfs.DropUnsynced, 1)
		}
		if dirs := options(image).Dirs; err != nil && dirs.CheckFormats() == nil && began(t, image) {
			t.Errorf("%s: a broker would start after %v", c.What, err)
		}
		if err != nil {
			must.OK(t, w.tieredRestore(image))
		}
		if err := w.judgeTier(image); err != nil && !(c.Lies && format.Unusable(err)) {
			t.Errorf("%s: %v", c.What, err)
		}
	}
}

// Each call of the disk fails once, and a failed sync drops what it was to write. Until the restore
// has ended, no broker starts, also after a loss of power. It succeeds when it is repeated, by
// another process or after the loss of power, and the broker has the snapshot, also after one.
func TestAFaultAtEveryCallOfTheDiskOfARestore(t *testing.T) {
	w := newWorld(t)
	// The calls of the logs are made by several goroutines: a number is not always the same call.
	// Those of the data directory have an order, and each fails. Of the others some do.
	inData := func(c errfs.Call) bool { return c.Path == "/data" || strings.HasPrefix(c.Path, "/data/") }
	if calls := w.fails(inData, 1); calls < 40 {
		t.Errorf("%d calls in the data directory", calls)
	}
	step := race.Some(5, 11)
	if testing.Short() {
		step = 13
	}
	if calls := w.fails(nil, step); calls < 300 {
		t.Errorf("%d calls", calls)
	}
}

// fails makes restores, in each of which another call fails of those for which when is true. It
// returns how many there are.
func (w *world) fails(when func(errfs.Call) bool, step int) int {
	t := w.t
	t.Helper()
	for from := 1; ; from += step {
		power := crashfs.New(uint64(from))
		disk := errfs.New(power)
		var failed errfs.Call
		fault := disk.Add(errfs.Rule{Err: syscall.EIO, When: when, From: from, Count: 1, Drop: errfs.DropCached,
			Before: func(c errfs.Call) { failed = c }})
		_, err := w.restore(disk)
		hit := fault.Hits() > 0
		fault.Off()
		lost := power.PowerLossImage(crashfs.DropUnsynced, 1)
		for what, image := range map[string]*crashfs.FS{"the same disk": power, "a loss of power": lost} {
			dirs := options(image).Dirs
			there, bad := raftstore.Exists(image, "/data/metadata")
			must.OK(t, bad)
			if err != nil && !there && dirs.CheckFormats() == nil && began(t, image) {
				t.Fatalf("%+v failed with %v; %s: a broker would start", failed, err, what)
			}
			if err != nil {
				if _, err := w.restore(image); err != nil {
					t.Fatalf("%+v failed; %s: again: %v", failed, what, err)
				}
			}
			after := image.PowerLossImage(crashfs.DropUnsynced, 1)
			if bad := options(after).Dirs.CheckFormats(); bad != nil {
				t.Fatalf("%+v failed with %v; %s: no broker starts after a restore that has ended: %v", failed, err, what, bad)
			}
			if w.judge(after); t.Failed() {
				t.Fatalf("%+v failed with %v; %s", failed, err, what)
			}
		}
		if !hit {
			return from
		}
	}
}

// began reports whether something was restored to the first log directory.
func began(t testing.TB, fsys vfs.FS) bool {
	t.Helper()
	used, err := storage.Used(fsys, storage.Location{Path: "/one"})
	must.OK(t, err)
	return used
}
