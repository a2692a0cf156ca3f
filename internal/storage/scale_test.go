package storage

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

func large(o *Options) { o.JournalFileSize, o.JournalBytes = 16<<20, 64<<20 }

// A start after a crash with 10,000 partitions is complete when the journal has been read: a few
// calls for each partition with frames, and one check of each without. A long start reports its
// progress, and the metric changes.
func TestFault10StartWithManyPartitions(t *testing.T) {
	const n, busy = 10_000, 1000
	disk := vfs.Memory()
	d := mustOpen(t, disk, "sync", large)
	logs := makeLogs(t, d, n, "sync")
	data := testBatch(t, 100, nil)
	for _, l := range logs[:busy] {
		l.Append(&Append{Batches: data, Sink: make(sink, 1)}, nil)
	}
	for _, l := range logs[:busy] {
		eventually(t, "the records count", func() bool { return l.AckEnd() == 1 })
	}
	image := vfs.Memory()
	copyTree(t, disk, "/d", image, "/d") // like after a kill
	synctest.Test(t, func(t *testing.T) {
		errs := errfs.New(image)
		errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/t-*/*.log", Delay: 100 * time.Millisecond})
		core, said := observer.New(zap.InfoLevel)
		m := metrics.NewStorage(nil)
		began := time.Now()
		again, err := openDir(errs, "sync", large, func(o *Options) { o.Logger, o.Metrics = zap.New(core), m })
		must(t, err)
		defer again.Close()
		if ops := errs.Calls(errfs.Any); ops > 8*busy+2*n {
			t.Errorf("the start took %d calls for %d partitions, %d of them busy", ops, n, busy)
		}
		for _, l := range again.Logs() {
			if want := int64(1); l.id.Partition < busy && l.Ends().Durable != want {
				t.Fatalf("%s: %+v", l, l.Ends())
			}
		}
		if lines := said.FilterMessageSnippet("recovering").Len(); lines < int(time.Since(began)/progressEvery)-1 || lines == 0 {
			t.Errorf("said %d times how far it is, in %v", lines, time.Since(began))
		}
		if frames := testutil.ToFloat64(m.RecoveryFrames.WithLabelValues("/d")); frames != busy {
			t.Errorf("the metric shows %v frames of %d", frames, busy)
		}
	})
}

// A disk whose fdatasyncs take arbitrarily long affects one directory only: its memory stays
// bounded, all its records are acknowledged in the end, and other directories are not affected.
func TestFault09SlowDiskAffectsNoOtherDirectory(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	const bound = 256 << 10
	opt := Options{FS: errs, JournalFileSize: 1 << 20, JournalBytes: 4 << 20, DeferredBytes: bound}
	m, err := Open([]Location{{Path: "/d"}, {Path: "/e"}}, opt)
	must(t, err)
	defer m.Close()
	logs, err := m.Create([]Spec{
		{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: testConfig("sync")},
		{ID: ID{Topic: [16]byte{1}, Partition: 1}, Topic: "t", Config: testConfig("sync")},
	})
	must(t, err)
	lead(logs...)
	slow, quick := logs[0], logs[1]
	if slow.dir.path != "/d" || quick.dir.path != "/e" {
		t.Fatal("both logs are in one directory")
	}
	hold, let := gated(t)
	for _, p := range []string{"/d/*", "/d/*/*"} {
		errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: p, Before: func(errfs.Call) { <-hold }})
	}
	var sent []*Append
	for range 2000 { // 2 MB
		a := &Append{Batches: testBatch(t, 1000, nil), Sink: make(sink, 1)}
		slow.Append(a, nil)
		sent = append(sent, a)
	}
	put(t, quick, 500, 100) // while the other directory makes no progress
	if slow.AckEnd() != 0 {
		t.Errorf("%d records count without a datasync", slow.AckEnd())
	}
	if err := slow.Err(); err != nil {
		t.Errorf("slow is not broken: %v", err)
	}
	if n := slow.dir.memory.deferred.Load(); n > 2*bound {
		t.Errorf("%d bytes are deferred, the bound is %d", n, bound)
	}
	let()
	for _, a := range sent {
		if <-a.Sink.(sink); a.Err != nil {
			t.Fatal(a.Err)
		}
		if n := slow.dir.memory.deferred.Load(); n > 2*bound {
			t.Fatalf("%d bytes are deferred, the bound is %d", n, bound)
		}
	}
	eventually(t, "everything counts", func() bool { return slow.AckEnd() == 2000 })
	holds(t, slow, 2000)
}
