package storage

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// view is the knowledge of a log at one moment. A read is checked against the views before and
// after it.
type view struct {
	of         []history // the log is one of these: there are two while its end or start moves
	start, end int64     // of the actual log
	high       int64     // no record at or beyond it was compacted away
	compacted  bool
	replacing  bool
	closed     bool
}

func (m *mlog) view(l *Log) view {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := view{of: []history{m.cur}, high: m.high.Load(), compacted: m.compacted, replacing: m.replacing}
	if n := len(m.alts); v.replacing && n > 0 {
		v.of = append(v.of, m.alts[n-1])
	}
	v.start, v.end = l.logStart.Load(), l.logEnd.Load()
	l.mu.RLock()
	v.closed = l.dir.stopping() || !l.life.state.Allows(loglife.Read)
	l.mu.RUnlock()
	return v
}

// replacedMeanwhile reports whether the log's start or end may have moved between two views.
func replacedMeanwhile(a, b *view) bool {
	return a.replacing || b.replacing || a.start != b.start || b.end < a.end || b.of[0].end() < a.of[0].end()
}

// mrecord is a record as it was appended.
type mrecord struct {
	offset, time int64
	key          string
	tombstone    bool
	text         string // the whole record
}

// recordsOf decodes a batch.
func recordsOf(b record.Batch) (all []mrecord) {
	err := b.Each(record.Limits{}, func(r record.Record) error {
		all = append(all, mrecord{r.Offset, r.Timestamp, string(r.Key), r.Value == nil, string(r.Key) + "=" + string(r.Value)})
		return nil
	})
	if err != nil {
		failf("the batch at %d can't be read: %v", b.BaseOffset(), err)
	}
	return all
}

// find returns the index of the batch that holds offset, or of the first one after it.
func (h *history) find(offset int64) int {
	return sort.Search(len(h.bs), func(i int) bool { return h.bs[i].next > offset })
}

// record returns the record at an offset, nil if there is none.
func (h *history) record(offset int64) *mrecord {
	if i := h.find(offset); i < len(h.bs) && h.bs[i].base <= offset {
		return &h.bs[i].records[offset-h.bs[i].base]
	}
	return nil
}

// misses returns why an answer is wrong if the log is h, "" if it is correct.
func (p *fetchPart) misses(v *view, h *history, high int64, got []record.Batch, most int) string {
	if v.compacted {
		return p.missesCompacted(h, high, got, most)
	}
	i := h.find(p.at)
	if len(got) == 0 {
		if p.at < p.limit && i < len(h.bs) && h.bs[i].base < p.limit && (p.one || len(h.bs[i].data) <= most) {
			return fmt.Sprintf("the answer is empty, but a batch of %d bytes stands at %d", len(h.bs[i].data), h.bs[i].base)
		}
		return ""
	}
	for k, b := range got {
		if i+k >= len(h.bs) || !bytes.Equal(b, h.bs[i+k].data) {
			return fmt.Sprintf("batch %d of the answer, at %d, is not the one that was appended there", k, b.BaseOffset())
		}
	}
	return ""
}

// missesCompacted is misses for a log whose records may have been removed. Each remaining record is
// one that was appended, and each missing one may have been compacted away.
func (p *fetchPart) missesCompacted(h *history, high int64, got []record.Batch, most int) string {
	left := map[int64]bool{}
	next := p.next
	for _, b := range got {
		for _, r := range recordsOf(b) {
			if was := h.record(r.offset); was == nil || *was != r {
				return fmt.Sprintf("record %d is not the one that was appended there", r.offset)
			}
			left[r.offset] = true
		}
	}
	if len(got) == 0 {
		next = p.limit
		for i := range h.bs { // the remainder of its batch may be too large
			if !p.one && len(h.bs[i].data) > most {
				return ""
			}
		}
	}
	s := h.survivors(p.m, high)
	for i := h.find(p.at); i < len(h.bs) && h.bs[i].base < next; i++ {
		for k := range h.bs[i].records {
			if r := &h.bs[i].records[k]; r.offset >= p.at && r.offset < next && !left[r.offset] && s.has(r) {
				return fmt.Sprintf("record %d was skipped", r.offset)
			}
		}
	}
	return ""
}

// survivors are the records that compaction must keep.
type survivors struct {
	m    *mlog
	high int64
	last map[string]int64 // by key, below high
}

func (h *history) survivors(m *mlog, high int64) survivors {
	s := survivors{m, high, map[string]int64{}}
	for _, b := range h.bs {
		for i := range b.records {
			if r := &b.records[i]; r.offset < high {
				s.last[r.key] = r.offset
			}
		}
	}
	return s
}

func (s *survivors) has(r *mrecord) bool {
	return r.offset >= s.high || r.offset == s.last[r.key] && !(r.tombstone && s.m.tombstones() == 0)
}
