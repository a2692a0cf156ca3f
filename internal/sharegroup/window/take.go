package window

import "time"

// Batch is a record batch that was read from the log.
type Batch struct {
	// Base and Last are its first and its last offset.
	Base, Last int64
	// Gone states that no member gets its records: a control batch, or one of an aborted
	// transaction.
	Gone bool
}

// Taking describes an acquisition.
type Taking struct {
	Member Member
	Now    time.Duration
	// From is the offset at which the read began, as Plan has returned it. Offsets from there on
	// that are in no batch have no record: compaction has removed it.
	From int64
	// Batches are those that were read, in the order of their offsets.
	Batches []Batch
	// Records bounds the number of records. Without Strict, the batch that reaches it is acquired
	// whole.
	Records int64
	// Strict is the mode record_limit of KIP-1206: never more than Records.
	Strict bool
	// BatchSize is the number of records from which on a range ends with its batch. Strict
	// acquisitions ignore it.
	BatchSize int64
}

// Delivery is a range of records that a member has acquired.
type Delivery struct {
	First, Last int64
	// Count is how often the records were delivered, this time included.
	Count int
}

// Plan returns the offset from which the caller should read to acquire records: the first available
// one, otherwise SPEO. It reports false if nothing can be acquired before an event. start is where
// the log starts.
func (w *Window) Plan(start int64) (from int64, ok bool) {
	if w.dropped || w.closed {
		return 0, false
	}
	w.StartMoved(start)
	if r, found := w.tree.next(w.start, hasAvailable); found {
		return r.first, true
	}
	return w.end, w.end-w.start < w.cfg.Locks
}

// Take acquires records for a member until Now plus the lock duration, and appends their ranges to
// into. Of what was read it acquires only what is available now. It archives offsets that have no
// record for the group, and records that have reached the delivery limit.
//
// Records that failed often are suspected to be the cause: from half of the delivery limit on, they
// are delivered in parts that get smaller with each delivery, and never together with others. The
// last delivery of a record is alone, if the limit is above 2.
//
// It costs O(log n) for each run that it changes, for each batch, and for each range that it
// returns, whatever the number of records.
func (w *Window) Take(t Taking, into []Delivery) []Delivery {
	if w.dropped || w.closed || t.From > w.end || t.Records < 1 {
		return into
	}
	k := taking{Taking: t, w: w, out: into, open: len(into)}
	at := max(t.From, w.start)
	for _, b := range t.Batches {
		if b.Last < at {
			continue
		}
		if b.Base > at && !k.archive(at, b.Base-1) {
			break
		}
		first := max(b.Base, at)
		if b.Gone && !k.archive(first, b.Last) || !b.Gone && !k.acquire(first, b) {
			break
		}
		at = b.Last + 1
	}
	w.advance()
	return k.out
}

// taking is a Take that is in progress.
type taking struct {
	Taking
	w     *Window
	grant uint32 // 0: nothing is acquired yet
	taken int64  // records
	out   []Delivery
	open  int // ranges of out from here on may grow
}

// archive archives the available offsets among first to last, which have no record. It reports
// whether the window has space for more.
func (k *taking) archive(first, last int64) bool {
	w := k.w
	for r, ok := w.tree.next(first, hasAvailable); ok && r.first <= last; r, ok = w.tree.next(first, hasAvailable) {
		to := run{state: Archived, count: r.count, flags: dirty}
		end := min(r.last(), last)
		w.tree.set(r, max(r.first, first), end, to, 0)
		first = end + 1
	}
	w.advance() // they may be all that is in the window
	if last < w.end {
		return true
	}
	if w.end-w.start >= w.cfg.Locks {
		return false
	}
	w.tree.add(run{first: w.end, n: last - w.end + 1, state: Archived, flags: dirty})
	w.end = last + 1
	w.advance()
	return true
}

// acquire acquires the records of a batch from an offset on. It reports whether those of the next
// batch may follow: never if records of this one are left above SPEO, which would be skipped.
func (k *taking) acquire(first int64, b Batch) bool {
	if !k.acquireKnown(first, b) {
		return false
	}
	w := k.w
	if b.Last >= w.end {
		// These are the first offsets above SPEO: a batch begins where the one before ended, or
		// what is between them is archived.
		n := b.Last - w.end + 1
		if space := w.cfg.Locks - (w.end - w.start); space <= 0 {
			return false
		} else if k.Strict {
			n = min(n, k.Records-k.taken, space)
		}
		r := run{first: w.end, n: n, count: 1, state: Acquired, flags: held}
		r.ref = k.granted()
		w.tree.add(r)
		w.end += n
		k.note(r.first, r.last(), 1)
	}
	if last := len(k.out) - 1; !k.Strict && last >= k.open && k.out[last].Last-k.out[last].First+1 >= k.BatchSize {
		k.open = last + 1
	}
	return k.taken < k.Records && (w.end > b.Last || w.cfg.Broken.Has(SkipRest))
}

// acquireKnown acquires the available records of a batch below SPEO, from an offset on. It reports
// whether others may follow.
func (k *taking) acquireKnown(first int64, b Batch) bool {
	w := k.w
	for {
		r, ok := k.next(first, b.Last)
		if !ok {
			return true
		}
		first = max(r.first, first)
		last := min(r.last(), b.Last)
		if int(r.count) >= w.cfg.Deliveries && !w.cfg.Broken.Has(DeliverAgain) {
			to := w.dead(run{count: r.count, flags: dirty})
			w.tree.set(r, first, last, to, 0)
			w.exhausted(to.state, last-first+1)
			first = last + 1
			continue
		}
		if part := w.part(int(r.count), b.Last-b.Base+1); part > 0 {
			if k.taken == 0 {
				k.acquirePart(r, first, min(b.Last, first+part-1))
			}
			return false
		}
		if k.Strict {
			last = min(last, first+k.Records-k.taken-1)
		}
		k.acquireRun(r, first, last)
		if k.Strict && k.taken >= k.Records {
			return false
		}
		first = last + 1
	}
}

// next returns the first run that can be acquired and has an offset from first to last.
func (k *taking) next(first, last int64) (run, bool) {
	if k.w.cfg.Broken.Has(TakeHeld) && first < k.w.end && first <= last {
		r := k.w.tree.get(first)
		return r, !r.state.terminal() && (r.state != Acquired || r.ref != k.grant)
	}
	r, ok := k.w.tree.next(first, hasAvailable)
	return r, ok && r.first <= last
}

// part returns how many records of a batch of size records are delivered together because their
// deliveries have failed so often; 0: as many as wanted.
func (w *Window) part(count int, size int64) int64 {
	limit := w.cfg.Deliveries
	from := max(2, (limit+1)/2)
	switch {
	case count < from || w.cfg.Broken.Has(MixPoison):
		return 0
	case limit > 2 && count == limit-1:
		return 1
	}
	return max(1, size>>(count-from+1))
}

// acquirePart acquires the available offsets from first to last that follow each other and were
// delivered as often as the first one. r has the first one.
func (k *taking) acquirePart(r run, first, last int64) {
	if k.Strict {
		last = min(last, first+k.Records-1)
	}
	for count, ok := r.count, true; ok && r.count == count && max(r.first, first) == first; r, ok = k.next(first, last) {
		end := min(r.last(), last)
		k.acquireRun(r, first, end)
		first = end + 1
	}
}

// acquireRun acquires offsets of a run that is available.
func (k *taking) acquireRun(r run, first, last int64) {
	to := run{state: Acquired, count: r.count + 1, flags: r.flags}
	k.w.tree.set(r, first, last, to, k.granted())
	k.note(first, last, int(r.count)+1)
}

// granted returns the grant of this acquisition.
func (k *taking) granted() uint32 {
	if k.grant == 0 {
		k.grant = k.w.granted(k.Member, k.Now, k.w.cfg.Lock, false)
	}
	return k.grant
}

// note adds acquired records to the ranges.
func (k *taking) note(first, last int64, count int) {
	k.taken += last - first + 1
	k.w.counts.Delivered += last - first + 1
	if count > 1 {
		k.w.counts.Redelivered += last - first + 1
	}
	if n := len(k.out) - 1; n >= k.open && k.out[n].Last+1 == first && k.out[n].Count == count {
		k.out[n].Last = last
		return
	}
	k.out = append(k.out, Delivery{first, last, count})
}
