package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// world collects the state of the group from the members, the writer and the broker, and detects
// contradictions.
type world struct {
	mu        sync.Mutex
	owners    map[place]map[string]bool // by the name of the member
	next      map[string]map[place]int64
	floor     map[place]int64 // acknowledged commits, from the members' own lines
	committed map[place]int64 // as last reported by the broker
	exact     map[place]int64 // the next reader's first offset, if it is known
	written   map[place]map[int64]string
	ends      map[place]int64 // one after the last acknowledged record
	seen      map[place]map[int64]string
	changes   map[string]int // how often a member's assignment changed
	reads     int
	wrong     []error
}

func newWorld() *world {
	return &world{owners: map[place]map[string]bool{}, next: map[string]map[place]int64{}, floor: map[place]int64{},
		committed: map[place]int64{}, exact: map[place]int64{}, written: map[place]map[int64]string{},
		ends: map[place]int64{}, seen: map[place]map[int64]string{}, changes: map[string]int{}}
}

func (w *world) fail(format string, args ...any) {
	if len(w.wrong) < 10 {
		w.wrong = append(w.wrong, fmt.Errorf(format, args...))
	}
}

// err returns the contradictions so far.
func (w *world) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.wrong...)
}

// handle handles one line of a member.
func (w *world) handle(member string, ev event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch ev.kind {
	case evAssigned:
		for _, p := range ev.places {
			w.own(member, p)
		}
	case evLost:
		for _, p := range ev.places {
			w.disown(member, p)
		}
	case evRead:
		w.read(member, ev.places[0], ev.offset, ev.value)
	case evCommitted:
		p := ev.places[0]
		w.floor[p] = max(w.floor[p], ev.offset)
	}
	if ev.kind == evAssigned || ev.kind == evLost {
		w.changes[member] += len(ev.places)
	}
}

func (w *world) own(member string, p place) {
	if w.owners[p] == nil {
		w.owners[p] = map[string]bool{}
	}
	w.owners[p][member] = true
	if w.next[member] == nil {
		w.next[member] = map[place]int64{}
	}
	// Negative: at least this offset. Commits that were acknowledged before the former owner gave
	// up the partition were acknowledged before this member read its start offset. Late lines of
	// the former owner only lower this bound.
	w.next[member][p] = -1 - w.floor[p]
}

func (w *world) disown(member string, p place) {
	delete(w.owners[p], member)
	delete(w.next[member], p)
}

// read compares a record with those that the member has read before.
func (w *world) read(member string, p place, offset int64, value string) {
	w.reads++
	if want, ok := w.exact[p]; ok {
		delete(w.exact, p)
		if offset != want {
			w.fail("%s begins %s at %d, but %d was committed when the group was empty", member, p, offset, want)
		}
	}
	// Some clients deliver buffered records of a partition that they have just given up; such a
	// record only counts as read.
	if next, ok := w.next[member][p]; ok {
		if next < 0 && offset < -1-next {
			w.fail("%s begins %s at %d, behind %d, which was committed before", member, p, offset, -1-next)
		}
		if next >= 0 && offset != next {
			w.fail("%s reads %d of %s after %d", member, offset, p, next-1)
		}
		w.next[member][p] = offset + 1
	}
	if w.seen[p] == nil {
		w.seen[p] = map[int64]string{}
	}
	if before, ok := w.seen[p][offset]; ok && before != value {
		w.fail("%s reads %q at %d of %s, where %q was before", member, value, offset, p, before)
	}
	w.seen[p][offset] = value
}

// dead forgets a member that was killed or has stopped.
func (w *world) dead(member string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, owners := range w.owners {
		delete(owners, member)
	}
	delete(w.next, member)
}

// acked records that the broker has acknowledged a record.
func (w *world) acked(p place, offset int64, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written[p] == nil {
		w.written[p] = map[int64]string{}
	}
	if before, ok := w.written[p][offset]; ok {
		w.fail("%q and %q were both acknowledged at %d of %s", before, value, offset, p)
	}
	w.written[p][offset] = value
	w.ends[p] = max(w.ends[p], offset+1)
}

// commits receives all committed offsets of the group.
func (w *world) commits(now map[place]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, before := range w.committed {
		if after, ok := now[p]; !ok {
			w.fail("the commit of %s at %d is gone", p, before)
		} else if after < before {
			w.fail("the commit of %s went back from %d to %d", p, before, after)
		}
	}
	for p, at := range now {
		w.committed[p] = at
	}
}

// resume is called when the group is empty: the next reader of a partition starts exactly at the
// committed offset.
func (w *world) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, at := range w.committed {
		if at < w.floor[p] {
			w.fail("the broker returned the committed offset %d of %s; correct is %d", w.floor[p], p, at)
		}
		w.exact[p], w.floor[p] = at, at
	}
}

// distributed returns nil if each partition has one owner and each of these members a partition.
func (w *world) distributed(all []place, members []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	has := map[string]bool{}
	for _, p := range all {
		if len(w.owners[p]) != 1 {
			return fmt.Errorf("%s is owned by %d members", p, len(w.owners[p]))
		}
		for m := range w.owners[p] {
			has[m] = true
		}
	}
	for _, m := range members {
		if !has[m] {
			return fmt.Errorf("%s owns nothing", m)
		}
	}
	return nil
}

// owned returns the partitions of a member, in order, and how often they have changed.
func (w *world) owned(member string) (names string, changes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for p, owners := range w.owners {
		if owners[member] {
			list = append(list, p.String())
		}
	}
	slices.Sort(list)
	return strings.Join(list, " "), w.changes[member]
}

// behind returns an error if commits have not reached these offsets yet.
func (w *world) behind(ends map[place]int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, end := range ends {
		if w.committed[p] < end {
			return fmt.Errorf("%s is committed up to %d of %d", p, w.committed[p], end)
		}
	}
	return nil
}

// unseen fails for every acknowledged record that no member has read.
func (w *world) unseen() (records, reads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, written := range w.written {
		for offset, value := range written {
			records++
			if got, ok := w.seen[p][offset]; !ok {
				w.fail("no member read %q at %d of %s", value, offset, p)
			} else if got != value {
				w.fail("%q was acknowledged at %d of %s, %q was read there", value, offset, p, got)
			}
		}
	}
	return records, w.reads
}
