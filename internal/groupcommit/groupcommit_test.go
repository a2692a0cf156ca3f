package groupcommit

import (
	"slices"
	"testing"
)

// numbered records its number when it is committed, and adds its Syncer.
type numbered struct {
	n    int
	did  *[]int
	sync Syncer
}

func (c *numbered) Commit(b *Batch) {
	*c.did = append(*c.did, c.n)
	if c.sync != nil {
		b.AddSync(c.sync)
	}
}

// pushing records its number plus 100 and is added by the commit of others.
type pushing struct {
	n   int
	did *[]int
}

func (p *pushing) Push() { *p.did = append(*p.did, 100+p.n) }

// pusher is a Committer that adds a Pusher and a Syncer.
type pusher struct {
	numbered
	push Pusher
}

func (c *pusher) Commit(b *Batch) {
	c.numbered.Commit(b)
	b.AddPusher(c.push)
}

// Connections to followers send once per batch, after all commits and before any journal writes,
// whether the caller writes or not.
func TestPushesAreBetweenCommitsAndSyncs(t *testing.T) {
	var did []int
	disk, one, two := &syncer{1, &did}, &pushing{1, &did}, &pushing{2, &did}
	var b Batch
	fill := func() {
		did = nil
		for i, p := range []Pusher{one, two, one, one} {
			b.Add(&pusher{numbered{i, &did, disk}, p})
		}
	}
	fill()
	b.Run()
	if want := []int{0, 1, 2, 3, 101, 102, -1}; !slices.Equal(did, want) {
		t.Errorf("run: %v", did)
	}
	fill()
	b.HandOff()
	if want := []int{0, 1, 2, 3, 101, 102, -10}; !slices.Equal(did, want) {
		t.Errorf("handed off: %v", did)
	}
	b.AddPusher(one)
	if b.Empty() {
		t.Error("a batch with a push is said to be empty")
	}
}

// syncer records its number, below zero.
type syncer struct {
	n   int
	did *[]int
}

func (f *syncer) WriteGroup() { *f.did = append(*f.did, -f.n) }
func (f *syncer) Wake()       { *f.did = append(*f.did, -10*f.n) }

func TestTheSameIsDoneOnce(t *testing.T) {
	var did []int
	var all []*numbered
	first, second := &syncer{1, &did}, &syncer{2, &did}
	for i := range lookBack {
		all = append(all, &numbered{i, &did, []Syncer{first, second, nil}[i%3]})
	}
	var b Batch
	for range 3 {
		for _, c := range all {
			b.Add(c)
		}
		b.Add(all[0])
	}
	if b.Empty() {
		t.Error("a batch with work is said to be empty")
	}
	b.Run()
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, -10, -2}; !slices.Equal(did, want) {
		t.Errorf("done: %v", did)
	}
	if !b.Empty() {
		t.Error("a batch that was run is not empty")
	}
	did = nil
	b.Run()
	if len(did) > 0 {
		t.Errorf("done again: %v", did)
	}
	b.Add(all[1])
	b.HandOff()
	if want := []int{1, -20}; !slices.Equal(did, want) {
		t.Errorf("done, with others woken: %v", did)
	}
}

// A full batch commits its Committers, and syncs only when it is run.
func TestBound(t *testing.T) {
	var did []int
	var b Batch
	last := &syncer{1, &did}
	for i := range 3*maxCommits + 1 {
		b.Add(&numbered{i, &did, last})
		if n := len(b.commits); n > maxCommits || len(did)+n != i+1 {
			t.Fatalf("%d wait and %d are done, of %d", n, len(did), i+1)
		}
	}
	b.Run()
	if n := len(did) - 1; n != 3*maxCommits+1 || !slices.IsSorted(did[:n]) || did[n] != -1 {
		t.Errorf("%d were committed, in order: %v, then came %d", n, slices.IsSorted(did[:n]), did[n])
	}
	if n := cap(b.commits); n > keptCommits {
		t.Errorf("it keeps room for %d", n)
	}
}
