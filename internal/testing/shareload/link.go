package shareload

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/check"
)

// link is a member at a broker, with one session after the other.
type link struct {
	m      *member
	broker int32
	random *rand.Rand

	sessions int
	session  string // its name; empty: none
	next     int32  // its epoch
	named    map[Partition]bool
	shown    map[Partition]leader // by this broker, before the next fetch
	held     []*span
}

// span are offsets of a partition that were acquired together.
type span struct {
	of          Partition
	first, last int64
	records     map[int64]check.Record
	types       []check.Ack // by offset
	due, until  time.Time   // when they are acknowledged, and when the lock ends
	renew       bool        // first
}

func compare(a, b Partition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

// run fetches and acknowledges until ctx ends.
func (l *link) run(ctx context.Context) {
	for ctx.Err() == nil {
		parts := l.m.at(l.broker)
		if l.session == "" && len(parts) == 0 {
			_ = pause.Sleep(ctx, 100*time.Millisecond)
			continue
		}
		if !l.step(ctx, parts) {
			_ = pause.Sleep(ctx, 100*time.Millisecond)
		}
	}
	if l.session == "" || !l.m.leaving {
		return
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	l.next = -1
	l.acknowledge(within, l.due(true, false))
}

// step acknowledges what is due, and fetches. It reports whether all went well.
func (l *link) step(ctx context.Context, parts []Partition) bool {
	if l.session == "" {
		l.sessions++
		l.session, l.next = fmt.Sprintf("%s of %s at %d/%d", l.m.id, l.m.g.Name, l.broker, l.sessions), 0
		l.named, l.held = map[Partition]bool{}, nil
		l.shown = l.show(ctx)
	} else {
		if list := l.renewals(); len(list) > 0 && !l.acknowledge(ctx, list) {
			return false
		}
		if list := l.due(false, true); len(list) > 0 && !l.acknowledge(ctx, list) { // their locks have ended
			return false
		}
		if l.random.IntN(2) == 0 {
			if list := l.due(false, false); len(list) > 0 && !l.acknowledge(ctx, list) {
				return false
			}
		}
	}
	return l.fetch(ctx, parts)
}

// within bounds a request. A member that vanishes abandons its requests, and one that leaves does
// not.
func (l *link) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.m.leaving {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, patience)
}

// show returns the leaders that the broker names; nil without an answer.
func (l *link) show(ctx context.Context) map[Partition]leader {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := l.m.cl.Broker(int(l.broker)).Request(within, l.m.metadata())
	if err != nil {
		return nil
	}
	return l.m.learn(resp.(*kmsg.MetadataResponse))
}

// lost ends the session: its connection has, or the broker does not know it.
func (l *link) lost() {
	l.shows(nil)
	l.session, l.held = "", nil
}

// shows notes the leaders that the broker names, and tells the judges; nil for none.
func (l *link) shows(leaders map[Partition]leader) {
	l.shown = leaders
	for p := range l.named {
		epoch := int32(-1)
		if is, ok := leaders[p]; ok && is.broker == l.broker {
			epoch = is.epoch
		}
		l.m.g.Judges[p].Shown(l.session, epoch)
	}
}

// renewals returns the ranges that are to be renewed now.
func (l *link) renewals() (list []*span) {
	if l.m.g.honest.Load() {
		return nil
	}
	for _, r := range l.held {
		if r.renew && !time.Now().Before(r.due) {
			list = append(list, r)
		}
	}
	return list
}

// due removes the ranges that are to be acknowledged now, or all of them, and returns them. Those
// whose locks have ended, or may have, are apart: they would spoil the others.
func (l *link) due(all, late bool) (list []*span) {
	now, honest := time.Now(), l.m.g.honest.Load()
	l.held = slices.DeleteFunc(l.held, func(r *span) bool {
		if honest {
			r.accept()
		}
		ended := !now.Before(r.until)
		if r.renew && !honest || ended != late || !all && !honest && now.Before(r.due) {
			return false
		}
		if r.types == nil { // it keeps them in silence
			return ended
		}
		list = append(list, r)
		return true
	})
	return list
}

// accept makes the member accept a range.
func (r *span) accept() {
	r.types, r.renew = make([]check.Ack, r.last-r.first+1), false
	for i := range r.types {
		if _, ok := r.records[r.first+int64(i)]; ok {
			r.types[i] = check.Accept
		}
	}
}

// plan decides what becomes of a range.
func (l *link) plan(r *span) {
	r.accept()
	now := time.Now()
	r.due = now
	switch n := l.random.IntN(20); {
	case n < 12:
	case n < 18:
		r.due = now.Add(time.Duration(l.random.Int64N(int64(l.m.g.Lock / 2))))
	default:
		r.due = now.Add(time.Duration(l.random.Int64N(int64(l.m.g.Lock * 3 / 2))))
	}
	to := check.Accept
	switch n := l.random.IntN(40); {
	case n < 22:
	case n < 26:
		to = check.Release
	case n < 29:
		to = check.Reject
	case n < 34:
		to = check.Renew // some of each
	case n < 37:
		r.renew = true
	default:
		r.types = nil
	}
	for i := range r.types {
		if r.types[i] == check.Accept {
			if r.types[i] = to; to == check.Renew {
				r.types[i] = []check.Ack{check.Accept, check.Accept, check.Release, check.Reject}[l.random.IntN(4)]
			}
		}
	}
}

// acks are the acknowledgements of one request.
type acks struct {
	parts    []Partition
	batches  map[Partition][]kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch
	answered map[Partition][]func(bool)
	renew    bool
}

// acking tells the judges what is about to be acknowledged.
func (l *link) acking(list []*span) *acks {
	a := &acks{batches: map[Partition][]kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{},
		answered: map[Partition][]func(bool){}}
	slices.SortFunc(list, func(x, y *span) int { return cmp.Or(compare(x.of, y.of), cmp.Compare(x.first, y.first)) })
	for _, r := range list {
		b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
		b.FirstOffset, b.LastOffset = r.first, r.last
		for i := range r.last - r.first + 1 {
			by := check.Renew
			if !r.renew {
				by = r.types[i]
			}
			b.AcknowledgeTypes = append(b.AcknowledgeTypes, int8(by))
			if one, ok := r.records[r.first+i]; ok {
				a.answered[r.of] = append(a.answered[r.of], l.m.g.Judges[r.of].Acknowledging(l.session, one, by))
			}
		}
		a.renew = a.renew || r.renew
		if len(slices.Compact(slices.Clone(b.AcknowledgeTypes))) == 1 {
			b.AcknowledgeTypes = b.AcknowledgeTypes[:1]
		}
		if _, ok := a.batches[r.of]; !ok {
			a.parts = append(a.parts, r.of)
		}
		a.batches[r.of] = append(a.batches[r.of], b)
	}
	return a
}

// result tells the judges the result for a partition.
func (a *acks) result(p Partition, code int16) {
	for _, f := range a.answered[p] {
		f(code == 0)
	}
	delete(a.answered, p)
}

// acknowledge sends a ShareAcknowledge, of renewals or of others. It reports whether the session
// continues. With the epoch -1 it ends.
func (l *link) acknowledge(ctx context.Context, list []*span) bool {
	within, cancel := l.within(ctx)
	defer cancel()
	asked, a := time.Now(), l.acking(list)
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch, req.IsRenewAck = &l.m.g.Name, &l.m.id, l.next, a.renew
	for _, p := range a.parts {
		t, one := kmsg.NewShareAcknowledgeRequestTopic(), kmsg.NewShareAcknowledgeRequestTopicPartition()
		t.TopicID, one.Partition, one.AcknowledgementBatches = l.m.topicID(p.Topic), p.Index, a.batches[p]
		if n := len(req.Topics); n > 0 && req.Topics[n-1].TopicID == t.TopicID {
			req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, one)
			continue
		}
		t.Partitions = append(t.Partitions, one)
		req.Topics = append(req.Topics, t)
	}
	answer, err := l.m.cl.Broker(int(l.broker)).Request(within, req)
	resp, _ := answer.(*kmsg.ShareAcknowledgeResponse)
	if err != nil || resp.ErrorCode != 0 || l.next < 0 && len(resp.Topics) == 0 {
		l.lost()
		return false
	}
	l.alive(asked)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			of := l.m.partition(t.TopicID, p.Partition)
			a.result(of, p.ErrorCode)
			for _, r := range list {
				if a.renew && r.of == of {
					l.renewed(r, asked, p.ErrorCode == 0)
				}
			}
		}
	}
	return true
}

// renewed notes the result of a renewal. A range is renewed again, or acknowledged in time.
func (l *link) renewed(r *span, asked time.Time, success bool) {
	if !success {
		l.held = slices.DeleteFunc(l.held, func(x *span) bool { return x == r })
		return
	}
	lock := int64(l.m.g.Lock)
	r.until = asked.Add(l.m.g.Lock)
	r.renew = l.random.IntN(4) == 0
	r.due = asked.Add(time.Duration(lock/4 + l.random.Int64N(lock/2)))
}

// alive tells the judges that the session continues.
func (l *link) alive(asked time.Time) {
	l.next++
	for p := range l.named {
		l.m.g.Judges[p].Alive(l.session, asked)
	}
}

// fetch sends a ShareFetch, with acknowledgements that are due. It reports whether all went well.
func (l *link) fetch(ctx context.Context, parts []Partition) bool {
	var list []*span
	if l.next > 0 {
		list = l.due(false, false)
	}
	asked, a := time.Now(), l.acking(list)
	req := kmsg.NewPtrShareFetchRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &l.m.g.Name, &l.m.id, l.next
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 300, 1, 1<<20
	req.MaxRecords = 1 + l.random.Int32N(20)
	if l.m.g.honest.Load() {
		req.MaxRecords = 500
	}
	req.BatchSize, req.ShareAcquireMode = req.MaxRecords, int8(l.random.IntN(2))
	for _, p := range slices.SortedFunc(slices.Values(append(slices.Clone(parts), a.parts...)), compare) {
		if _, acked := a.batches[p]; l.named[p] && !acked {
			continue
		}
		l.named[p] = true
		t, one := kmsg.NewShareFetchRequestTopic(), kmsg.NewShareFetchRequestTopicPartition()
		t.TopicID, one.Partition = l.m.topicID(p.Topic), p.Index
		for _, b := range a.batches[p] {
			one.AcknowledgementBatches = append(one.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{
				FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, AcknowledgeTypes: b.AcknowledgeTypes})
		}
		delete(a.batches, p)
		t.Partitions = append(t.Partitions, one)
		req.Topics = append(req.Topics, t)
	}
	for p := range l.named {
		if _, acked := a.answered[p]; !slices.Contains(parts, p) && !acked {
			delete(l.named, p)
			req.ForgottenTopicsData = append(req.ForgottenTopicsData, kmsg.ShareFetchRequestForgottenTopicsData{
				TopicID: l.m.topicID(p.Topic), Partitions: []int32{p.Index}})
		}
	}
	within, cancel := l.within(ctx)
	defer cancel()
	answer, err := l.m.cl.Broker(int(l.broker)).Request(within, req)
	resp, _ := answer.(*kmsg.ShareFetchResponse)
	if err != nil || resp.ErrorCode != 0 {
		for p := range l.named {
			if err != nil {
				l.m.g.Judges[p].Unanswered()
			}
		}
		l.lost()
		return false
	}
	l.alive(asked)
	before, acquired, well := l.shown, false, true
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			of := l.m.partition(resp.Topics[i].TopicID, p.Partition)
			code := p.AcknowledgeErrorCode
			if code == 0 {
				code = p.ErrorCode
			}
			a.result(of, code)
			acquired, well = acquired || len(p.AcquiredRecords) > 0, well && p.ErrorCode == 0
		}
	}
	if !acquired {
		return well
	}
	l.shows(l.show(ctx))
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			of, epoch := l.m.partition(resp.Topics[i].TopicID, p.Partition), int32(-1)
			if was, is := before[of], l.shown[of]; was == is && was.broker == l.broker && before != nil {
				epoch = was.epoch
			}
			l.took(of, p, asked, epoch)
		}
	}
	return well
}

// took tells the judge of what a fetch has acquired, and plans what becomes of it.
func (l *link) took(of Partition, p *kmsg.ShareFetchResponseTopicPartition, asked time.Time, epoch int32) {
	records := map[int64]check.Record{}
	for rest := p.Records; len(rest) > 0; {
		b, more, err := record.Next(rest)
		if err != nil {
			break
		}
		_ = b.Each(record.Limits{}, func(r record.Record) error { // what cannot be read is missed in the end
			records[r.Offset] = check.Record{Offset: r.Offset, Epoch: b.LeaderEpoch(), Value: string(r.Value)}
			return nil
		})
		rest = more
	}
	for _, a := range p.AcquiredRecords {
		r := &span{of: of, first: a.FirstOffset, last: a.LastOffset, records: map[int64]check.Record{}, until: asked.Add(l.m.g.Lock)}
		for at := r.first; at <= r.last; at++ {
			one, ok := records[at]
			if !ok {
				continue
			}
			r.records[at] = one
			l.m.g.Judges[of].Took(check.Delivery{Record: one, Session: l.session, Leader: epoch, Count: int(a.DeliveryCount), Asked: asked,
				Lock: l.m.g.Lock})
		}
		l.plan(r)
		l.held = append(l.held, r)
	}
}
