package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/view"
)

// ShareOperators reaches the leaders of share partitions for operators. *desk.Desk implements it.
type ShareOperators interface {
	InspectRecords(ctx context.Context, items []sharestate.Operating, done func([]sharestate.Operated))
	Operate(ctx context.Context, items []sharestate.Operating, done func([]sharestate.Operated))
}

const (
	// operatorTime bounds an operator's request. A change waits for its write.
	operatorTime = 8 * time.Second
	// mostInspections is how many requests of operators read records at a time on a leader.
	mostInspections = 4
	// inspectBytes bounds the batches that one of them reads, except for a larger batch, and
	// inspectRead a single read. inspectInflated bounds a batch without compression.
	inspectBytes    = 4 << 20
	inspectRead     = 256 << 10
	inspectInflated = 64 << 20
)

// operatorAsk returns what an operator asks for with a tagged field of a request, nil if no
// operator has sent it.
func operatorAsk(tags *kmsg.Tags, field uint32) (body []byte) {
	tags.Each(func(tag uint32, p []byte) {
		if tag == field {
			body = append([]byte{}, p...)
		}
	})
	return body
}

// decodeTagged decodes JSON of at most most bytes, with which an operator asks for something. A
// field that this version does not know is an error: without it, the request could change more than
// its sender wants.
func decodeTagged(body []byte, most int, ask any) error {
	if len(body) > most {
		return fmt.Errorf("the request has %d bytes, more than %d", len(body), most)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(ask)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("there is more after it")
		}
	}
	if err != nil {
		return fmt.Errorf("the request is no JSON of this version: %w", err)
	}
	return nil
}

// operatorError is the error of an operator's request, with its cause and what to do.
type operatorError struct {
	code *kerr.Error
	text string
}

// decodeAsk decodes what an operator asks for. changes: it is in a ShareAcknowledge.
func decodeAsk(body []byte, changes bool) (ask view.ShareAsk, err error) {
	if err := decodeTagged(body, view.MaxShareAsk, &ask); err != nil {
		return ask, err
	}
	switch {
	case ask.First < 0 || changes && ask.Last < ask.First:
		return ask, fmt.Errorf("offsets %d to %d are no range: the first one must be at least 0, and the last one not below it",
			ask.First, ask.Last)
	case changes && ask.Action != view.ReleaseRecords && ask.Action != view.RejectRecords:
		return ask, fmt.Errorf("unknown action %q: it is %s or %s", ask.Action, view.ReleaseRecords, view.RejectRecords)
	case !changes && ask.Action != "": // the audit log would have a change that changed nothing, and no read
		return ask, fmt.Errorf("a request that shows records has no action, and this one has %q", ask.Action)
	case !changes && (ask.Limit < 1 || ask.Limit > view.MaxShareRecords):
		return ask, fmt.Errorf("the limit is %d: it must be 1 to %d", ask.Limit, view.MaxShareRecords)
	}
	_, err = statesOf(ask.States)
	return ask, err
}

// unfinished are the states that an operator sees.
var unfinished = []window.State{window.Available, window.Delayed, window.Acquired, window.Archiving}

func statesOf(names []string) (list []window.State, err error) {
	if len(names) == 0 {
		return unfinished, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(unfinished, func(s window.State) bool { return s.String() == name })
		if i < 0 {
			all := make([]string, len(unfinished))
			for k, s := range unfinished {
				all[k] = s.String()
			}
			return nil, fmt.Errorf("unknown state %q: the states are %s", name, strings.Join(all, ", "))
		}
		list = append(list, unfinished[i])
	}
	return list, nil
}

// operate passes an operator's request to the leader of its share partition. It needs the rights of
// a member. respond gets the answer, or an error.
func (c call) operate(group *string, body []byte, changes bool, respond func(answer []byte, err *operatorError)) {
	b, r := c.b, c.r
	refuse := func(code *kerr.Error, text string) { respond(nil, &operatorError{code, text}) }
	ask, err := decodeAsk(body, changes)
	switch {
	case b.opt.Operators == nil || b.shares == nil:
		refuse(kerr.CoordinatorNotAvailable, "this broker serves no share groups")
		return
	case group == nil || *group == "":
		refuse(kerr.InvalidRequest, "the request names no group")
		return
	case err != nil:
		refuse(kerr.InvalidRequest, err.Error())
		return
	}
	m := b.rights(r)
	code := m.group(acl.Read, *group)
	if code == nil {
		code = m.topic(acl.Read, ask.Topic)
	}
	if code != nil {
		refuse(code, denialText(code))
		return
	}
	t := b.image().Topic(ask.Topic)
	if t == nil || t.Partitions.At(ask.Partition) == nil {
		refuse(kerr.UnknownTopicOrPartition, fmt.Sprintf("there is no partition %d of a topic %q", ask.Partition, ask.Topic))
		return
	}
	ctx, cancel := context.WithTimeout(b.contextOf(r), operatorTime)
	send := b.opt.Operators.InspectRecords
	if changes {
		send = b.opt.Operators.Operate
	}
	id := *group
	c.place.end() // from here on it waits for the leader
	send(ctx, []sharestate.Operating{{Key: format.Key{Group: id, Topic: t.ID, Partition: ask.Partition}, Body: body}},
		func(list []sharestate.Operated) {
			defer cancel()
			b.recordOperated(ctx, id, &ask, &list[0])
			if code := list[0].Err; code != nil {
				refuse(code, operatedText(code, id, &ask))
				return
			}
			respond(list[0].Body, nil)
		})
}

// operatedText is why a leader has not done what an operator asks for, and what to do.
func operatedText(code *kerr.Error, group string, ask *view.ShareAsk) string {
	of := fmt.Sprintf("group %q has", group)
	switch code {
	case kerr.UnknownTopicOrPartition:
		return fmt.Sprintf("%s no state of partition %d of %q: no member has subscribed to the topic", of, ask.Partition, ask.Topic)
	case kerr.KafkaStorageError:
		return fmt.Sprintf("%s a state of partition %d of %q that cannot be used; reset its offsets, or delete them", of, ask.Partition,
			ask.Topic)
	case kerr.RequestTimedOut:
		return "it is not known whether the change was made: its leader has not answered, or has lost its leadership; " +
			"inspect the records before you repeat it"
	case kerr.CoordinatorLoadInProgress:
		return "too many requests for the records wait for their leader; repeat the request"
	}
	return "the leader of the partition has not answered; repeat the request"
}

// recordOperated records who has seen or changed which records.
func (b *Handler) recordOperated(ctx context.Context, group string, ask *view.ShareAsk, o *sharestate.Operated) {
	client, ok := audit.From(ctx)
	if !ok {
		return
	}
	if ask.Action == "" {
		var seen view.ShareRecords
		if o.Err == nil && json.Unmarshal(o.Body, &seen) == nil {
			b.opt.Audit.Record(audit.Event{Kind: audit.Read, Client: client, Operation: "READ",
				Resource: fmt.Sprintf("Partition:LITERAL:%s-%d", ask.Topic, ask.Partition),
				Why:      fmt.Sprintf("%d records from offset %d on, of share group %s", len(seen.Records), ask.First, group)})
		}
		return
	}
	var change view.ShareChange
	switch {
	case o.Err == kerr.RequestTimedOut:
	case o.Err != nil || json.Unmarshal(o.Body, &change) != nil || change.Changed == 0:
		return // nothing has changed
	}
	e := groupChange(client, strings.ToUpper(ask.Action), group, struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		First     int64  `json:"first"`
		Last      int64  `json:"last"`
		Changed   int64  `json:"changed"`
	}{ask.Topic, ask.Partition, ask.First, ask.Last, change.Changed})
	if o.Err != nil {
		e.Why = "it is not known whether the change was made: " + o.Err.Message
	}
	b.opt.Audit.Record(e)
}

// OperateShare carries out what an operator asks for a share partition whose data partition this
// broker leads, see desk.Operator.
func (b *Handler) OperateShare(item sharestate.Operating, changes bool, done func(sharestate.Operated)) {
	part, err := b.opt.Replicas.Partition(item.Key.Topic, item.Key.Partition)
	if err != nil || b.shares == nil {
		done(sharestate.Operated{Err: kerr.NotLeaderForPartition})
		return
	}
	if leader, _ := part.Leader(); leader != b.opt.Self {
		done(sharestate.Operated{Err: kerr.NotLeaderForPartition})
		return
	}
	ask, err := decodeAsk(item.Body, changes)
	if err != nil { // of another version
		done(sharestate.Operated{Err: kerr.UnsupportedVersion})
		return
	}
	p := b.shares.Partition(item.Key, part, b.shareSettings(item.Key.Group))
	if !changes {
		states, _ := statesOf(ask.States)
		p.InspectRecords(ask.First, int64(ask.Limit), states, func(s shareleader.Seen, code *kerr.Error) {
			if code != nil {
				done(sharestate.Operated{Err: code})
				return
			}
			b.inspectRecords(part, &s, done)
		})
		return
	}
	by := window.Release
	if ask.Action == view.RejectRecords {
		by = window.Reject
	}
	p.Operate(by, ask.First, ask.Last, func(o window.Operated, code *kerr.Error) {
		if code != nil {
			done(sharestate.Operated{Err: code})
			return
		}
		done(sharestate.Operated{Body: encoded(view.ShareChange(o))})
	})
}

// inspectRecords adds the records to what an operator sees, on a goroutine of its own.
func (b *Handler) inspectRecords(part *replica.Partition, s *shareleader.Seen, done func(sharestate.Operated)) {
	select {
	case b.inspecting <- struct{}{}:
	default:
		done(sharestate.Operated{Err: kerr.CoordinatorLoadInProgress})
		return
	}
	b.work.Go(func() {
		works.Set()
		all := shownShare(s)
		rest, err := b.preview(part, s, all.Records)
		<-b.inspecting
		if _, epoch := part.Leader(); epoch != s.Epoch { // the log may have changed during the read
			done(sharestate.Operated{Err: kerr.NotLeaderForPartition})
			return
		}
		switch {
		case errors.Is(err, errInspectBytes): // without their values, they would look like records that have none
			all.Next, all.Records = rest[0].Offset, all.Records[:len(all.Records)-len(rest)]
		case err != nil:
			all.Note = "not all records were read: " + err.Error()
		}
		done(sharestate.Operated{Body: encodeShown(all)})
	})
}

// shownShare returns the offsets of what an operator sees.
func shownShare(s *shareleader.Seen) *view.ShareRecords {
	all := &view.ShareRecords{Start: s.Start, End: s.End, HighWatermark: s.Limit, Records: []view.ShareRecord{}, Next: s.Next}
	for _, r := range s.Runs {
		for o := r.First; o <= r.Last; o++ {
			all.Records = append(all.Records, view.ShareRecord{Offset: o, State: r.State.String(), Deliveries: r.Count, Member: r.Member,
				LeftMs: int64((r.Left + time.Millisecond - 1) / time.Millisecond)})
		}
	}
	return all
}

// errInspectBytes: a request has read what it may.
var errInspectBytes = fmt.Errorf("a request reads at most %d MiB of batches", inspectBytes>>20)

// preview adds the keys and values of records, which are in the order of their offsets. An error
// leaves some without: those that it returns.
func (b *Handler) preview(part *replica.Partition, s *shareleader.Seen, list []view.ShareRecord) (rest []view.ShareRecord, err error) {
	left := int64(inspectBytes)
	for len(list) > 0 {
		if left <= 0 {
			return list, errInspectBytes
		}
		if err := b.ctx.Err(); err != nil {
			return list, err
		}
		res, err := part.Read(replica.ReadRequest{Offset: list[0].Offset, MaxBytes: int(min(left, inspectRead)), AtLeastOne: true,
			Committed: s.Committed, CurrentEpoch: s.Epoch, FetchedEpoch: -1})
		if err != nil {
			res.Release()
			return list, fmt.Errorf("offset %d cannot be read: %w", list[0].Offset, err)
		}
		n := len(list)
		for _, p := range res.Parts {
			left -= int64(len(p))
			if list, err = b.previewIn(p, &res, list); err != nil {
				break
			}
		}
		res.Release()
		if err != nil {
			return list, err
		}
		if len(list) == n { // there is no batch at or above it
			return nil, nil
		}
	}
	return nil, nil
}

// previewIn adds those that are in some batches, and returns the others.
func (b *Handler) previewIn(batches []byte, res *replica.ReadResult, list []view.ShareRecord) ([]view.ShareRecord, error) {
	for len(batches) > 0 && len(list) > 0 {
		batch, rest, err := record.Next(batches)
		if err != nil {
			return list, err
		}
		batches = rest
		n := 0 // of list that the batch has, or that no batch has
		for n < len(list) && list[n].Offset <= batch.LastOffset() {
			list[n].Missing = true
			n++
		}
		if some := list[:n]; n > 0 && !batch.Control() && !isAborted(batch, res.Aborted) {
			if err := previewOf(batch, some, record.Limits{Bytes: inspectInflated, Places: b.batches}); err != nil {
				return list, err
			}
		}
		list = list[n:]
	}
	return list, nil
}

// errFilled ends the walk of a batch whose other records are not wanted.
var errFilled = errors.New("filled")

func previewOf(batch record.Batch, list []view.ShareRecord, limits record.Limits) error {
	err := batch.Each(limits, func(r record.Record) error {
		for len(list) > 0 && list[0].Offset < r.Offset {
			list = list[1:]
		}
		if len(list) == 0 {
			return errFilled
		}
		if x := &list[0]; x.Offset == r.Offset {
			x.Missing, x.Timestamp, x.KeyBytes, x.ValueBytes = false, r.Timestamp, len(r.Key), len(r.Value)
			x.Key, x.Value = cut(r.Key), cut(r.Value)
		}
		return nil
	})
	if errors.Is(err, errFilled) {
		return nil
	}
	return err
}

// cut returns a copy of the first bytes of a text, nil for none.
func cut(p []byte) []byte {
	return bytes.Clone(p[:min(len(p), view.MaxSharePreview)])
}

// encodeShown encodes what an operator sees. What does not fit is left to another request.
func encodeShown(all *view.ShareRecords) []byte {
	for {
		body := encoded(all)
		if len(body) <= view.MaxShareAnswer || len(all.Records) <= 1 {
			return body
		}
		keep := len(all.Records) / 2
		all.Next, all.Records = all.Records[keep].Offset, all.Records[:keep]
	}
}
