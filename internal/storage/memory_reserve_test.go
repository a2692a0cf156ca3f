package storage

import (
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// Records of an internal topic are accepted although clients' records fill the memory and segments
// are blocked. Their additional memory is also limited, and all appends succeed in the end.
func TestClientsCannotFillTheMemoryOfInternalTopics(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	const bound = 256 << 10
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalFileSize, o.JournalBytes, o.DeferredBytes = 4<<20, 16<<20, bound })
	client, internal := ours(t, d)
	hold, let := gated(t)
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/*-*/*.log", Before: func(errfs.Call) { <-hold }})
	var waiting []*Append
	flood := func(l *Log) {
		for range 1000 {
			a := &Append{Batches: testBatch(t, 1000, nil), Sink: make(sink, 1)}
			l.Append(a, nil)
			waiting = append(waiting, a)
		}
	}
	flood(client)
	if n := d.memory.deferred.Load(); n < bound {
		t.Fatalf("clients fill %d bytes of %d", n, bound)
	}
	first := &Append{Batches: testBatch(t, 1000, nil), Sink: make(sink, 1)}
	internal.Append(first, nil)
	eventually(t, "a record of an internal topic is taken", func() bool { return len(first.Sink.(sink)) == 1 })
	if first.Err != nil {
		t.Error(first.Err)
	}
	flood(internal)
	if n := d.memory.deferred.Load(); n > bound+bound/8+2*chunkTarget {
		t.Errorf("%d bytes are deferred, the bound is %d", n, bound)
	}
	let()
	for _, a := range waiting {
		if <-a.Sink.(sink); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	eventually(t, "everything counts", func() bool { return client.AckEnd() == 1000 && internal.AckEnd() == 1001 })
}

// markerInAFullMemory appends a marker while the memory for clients' records is full and segments
// are blocked, and reports whether it is taken before that ends. Nothing else is refused or lost.
func markerInAFullMemory(t *testing.T, b broken) (taken bool) {
	t.Helper()
	errs := errfs.New(crashfs.New(1))
	const bound = 256 << 10
	d := mustOpen(t, errs, "sync", func(o *Options) {
		o.JournalFileSize, o.JournalBytes, o.DeferredBytes, o.broken = 4<<20, 16<<20, bound, b
	})
	client, _ := ours(t, d)
	hold, let := gated(t)
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/*-*/*.log", Before: func(errfs.Call) { <-hold }})
	ok(t, transact(client, inTxn(t, 7, 0, 0, 10)))
	var waiting []*Append
	for range 1000 {
		a := &Append{Batches: testBatch(t, 1000, nil), LeaderEpoch: epochOf(client), Sink: make(sink, 1)}
		client.Append(a, nil)
		waiting = append(waiting, a)
	}
	marker := &Append{Kind: Marker, Batches: record.EndTxnMarker(7, 1, record.Commit, 0, 1), LeaderEpoch: epochOf(client),
		Sink: make(sink, 1)}
	client.Append(marker, nil)
	taken = len(marker.Sink.(sink)) == 1
	if n := d.memory.deferred.Load(); n > bound+2*chunkTarget {
		t.Errorf("%d bytes are deferred, the bound is %d", n, bound)
	}
	let()
	for _, a := range append(waiting, marker) {
		ok(t, <-a.Sink.(sink))
	}
	eventually(t, "everything counts", func() bool { return client.AckEnd() == 1002 })
	if p, _ := client.Producer(7); p.First >= 0 {
		t.Errorf("%+v", p)
	}
	return taken
}

// Readers and the next transaction wait for a marker, so it does not wait for clients' memory.
func TestClientsCannotDelayMarkers(t *testing.T) {
	if !markerInAFullMemory(t, broken{}) {
		t.Error("the marker waits behind the records of clients")
	}
}
