package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/view"
)

// ShareFetch (key 78), versions 1 to 2: a member of a share group acquires records, and
// acknowledges earlier ones (KIP-932, KIP-1206, KIP-1222).
//
// Differences from Kafka: a client that is over its quota gets the records that it has acquired,
// and is then not read for a while. A session belongs to its connection, so a listener with one
// address for all brokers does not offer it.
func shareFetchAPI() api {
	return apiDef[*kmsg.ShareFetchRequest]{
		refuse: func(r *network.Request, _ *kmsg.ShareFetchRequest, code *kerr.Error) kmsg.Response {
			resp := respondTo(r, kmsg.NewPtrShareFetchResponse())
			resp.ErrorCode = code.Code
			return resp
		},
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.ShareFetch), Min: 1, Max: 2},
		asks:         asks[*kmsg.ShareFetchRequest]{inside: true},
		enabled:      sharesEnabled,
		overloaded:   kerr.CoordinatorNotAvailable,
		route:        route[*kmsg.ShareFetchRequest]{by: byNone},
		handle:       parks(shareFetch),
	}.api()
}

// maxShareMember bounds the id of a member, which the client makes, as in Kafka.
const maxShareMember = 36

// shareCaller is what the requests of share sessions have in common.
type shareCaller struct {
	group, member *string
	epoch         int32
}

// refused returns the error of a request as a whole, nil if there is none.
func (x *shareCaller) refused(b *Handler, r *network.Request) *kerr.Error {
	switch {
	case b.shares == nil:
		return kerr.CoordinatorNotAvailable
	case x.group == nil || *x.group == "" || x.member == nil || *x.member == "" || len(*x.member) > maxShareMember || x.epoch < -1:
		return kerr.InvalidRequest
	}
	return b.rights(r).group(acl.Read, *x.group)
}

// session returns the session of the request.
func (x *shareCaller) session(b *Handler, r *network.Request) (*shareleader.Session, *kerr.Error) {
	return b.shares.Session(*x.group, *x.member, x.epoch, shareleader.Client{Connection: r.Connection, From: r.Holder().Origin,
		OnClose: r.OnClose})
}

// shareAcks are the acknowledgements of a request for one partition.
type shareAcks struct {
	of   shareleader.Named
	acks []window.Ack
}

// shareFetch parks the request or answers it.
func shareFetch(c call, req *kmsg.ShareFetchRequest) {
	if ask := operatorAsk(&req.UnknownTags, view.ShareTag); ask != nil {
		c.r.WaitsAt(c.b.at.shareOperator, "")
		c.operate(req.GroupID, ask, false, func(answer []byte, err *operatorError) {
			resp := respondTo(c.r, kmsg.NewPtrShareFetchResponse())
			if err != nil {
				resp.ErrorCode, resp.ErrorMessage, c.r.Code = err.code.Code, &err.text, err.code.Code
			} else {
				resp.UnknownTags.Set(view.ShareTag, answer)
			}
			c.respond(resp)
		})
		return
	}
	caller := shareCaller{req.GroupID, req.MemberID, req.ShareSessionEpoch}
	code := caller.refused(c.b, c.r)
	acks := acksFetched(req)
	if code == nil && (len(acks) > 0 && caller.epoch == shareleader.OpenSession ||
		req.IsRenewAck && (req.MaxBytes != 0 || req.MinBytes != 0 || req.MaxRecords != 0 || req.MaxWaitMillis != 0)) {
		code = kerr.InvalidRequest
	}
	if code != nil {
		c.refuseShareFetch(code)
		return
	}
	s, code := caller.session(c.b, c.r)
	if code == nil && !s.Name(namedIn(req)) {
		s.End()
		code = kerr.ShareSessionLimitReached
	}
	wait := min(time.Duration(max(req.MaxWaitMillis, 0))*time.Millisecond, maxFetchWait)
	if code == kerr.ShareSessionLimitReached && wait > 0 {
		c.r.ReleaseBody()
		c.r.WaitsAt(c.b.at.shareFetch, "")
		c.refuseLater(wait, code)
		return
	}
	if code != nil {
		c.refuseShareFetch(code)
		return
	}
	for i := range req.ForgottenTopicsData {
		t := &req.ForgottenTopicsData[i]
		list := make([]shareleader.Named, len(t.Partitions))
		for j, index := range t.Partitions {
			list[j] = shareleader.Named{Topic: t.TopicID, Partition: index}
		}
		s.Forget(list)
	}
	op := newShareOp(c, s, *req.GroupID)
	op.maxRecords, op.batchSize = int64(req.MaxRecords), int64(max(req.BatchSize, 1))
	op.strict = req.ShareAcquireMode == 1
	op.maxBytes = min(int64(max(req.MaxBytes, 0)), int64(c.b.conf.MaxFetchBytes))
	op.minBytes = min(int64(max(req.MinBytes, 1)), max(op.maxBytes, 1))
	closes := caller.epoch == shareleader.CloseSession
	op.fetches = !closes && !req.IsRenewAck && op.maxBytes > 0 && op.maxRecords > 0
	if !closes {
		for _, n := range s.Partitions() {
			op.name(n)
		}
	}
	for i := range acks {
		op.name(acks[i].of)
	}
	atOnce := op.find()
	for i := range acks {
		op.acknowledge(&acks[i], req.IsRenewAck)
	}
	if closes {
		s.End()
	}
	op.begin(wait, atOnce)
}

// acksFetched returns the acknowledgements of a request.
func acksFetched(req *kmsg.ShareFetchRequest) (all []shareAcks) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if len(p.AcknowledgementBatches) == 0 {
				continue
			}
			one := shareAcks{of: shareleader.Named{Topic: t.TopicID, Partition: p.Partition}}
			for _, a := range p.AcknowledgementBatches {
				one.acks = append(one.acks, window.Ack{First: a.FirstOffset, Last: a.LastOffset, Types: ackTypes(a.AcknowledgeTypes)})
			}
			all = append(all, one)
		}
	}
	return all
}

func ackTypes(types []int8) []window.AckType {
	list := make([]window.AckType, len(types))
	for i, t := range types {
		list[i] = window.AckType(t)
	}
	return list
}

// namedIn returns the partitions that a request adds to its session.
func namedIn(req *kmsg.ShareFetchRequest) (list []shareleader.Named) {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			list = append(list, shareleader.Named{Topic: req.Topics[i].TopicID, Partition: req.Topics[i].Partitions[j].Partition})
		}
	}
	return list
}

func (c call) refuseShareFetch(code *kerr.Error) {
	c.r.Code = code.Code
	resp := respondTo(c.r, kmsg.NewPtrShareFetchResponse())
	resp.ErrorCode = code.Code
	if text := denialText(code); text != "" {
		resp.ErrorMessage = &text
	}
	c.respond(resp)
}

// refuseLater refuses a request when the time is over for which its client would have waited, or
// the client is gone: otherwise it would try again at once.
func (c call) refuseLater(wait time.Duration, code *kerr.Error) {
	// Others need what the request holds, and the client chooses for how long it waits.
	c.charge.release()
	c.place.end()
	gone := c.r.Client().Done()
	c.b.work.Go(func() {
		over := time.NewTimer(wait)
		defer over.Stop()
		select {
		case <-over.C:
		case <-gone:
		case <-c.b.ctx.Done():
		}
		c.refuseShareFetch(code)
	})
}

// find resolves the partitions, and joins the queues of those that are served here. It reports
// whether the answer must not wait.
func (op *shareOp) find() (atOnce bool) {
	_, atOnce = op.fetchRead.find(-1, "")
	settings := op.b.shareSettings(op.group)
	op.lock, op.committed = settings.Lock, settings.Committed
	op.shares = make([]sharePart, len(op.parts))
	for i := range op.parts {
		p, share := &op.parts[i], &op.shares[i]
		if p.err == nil && !p.led {
			p.err, atOnce = errNotLed, true
		}
		if p.err != nil {
			continue
		}
		share.p = op.b.shares.Partition(format.Key{Group: op.group, Topic: p.topic.ID, Partition: p.index}, p.part, settings)
		op.s.Use(shareleader.Named{Topic: p.topic.ID, Partition: p.index}, share.p)
	}
	return atOnce
}

var errNotLed = errors.Join(errors.New("another broker leads the partition"), replica.ErrNotLeader)

// shareSettings returns the settings of a share group.
func (b *Handler) shareSettings(group string) shareleader.Settings {
	img := b.image()
	b.shareConfigs.mu.Lock()
	defer b.shareConfigs.mu.Unlock()
	if b.shareConfigs.img != img {
		b.shareConfigs.img, b.shareConfigs.of = img, map[string]shareleader.Settings{}
	}
	s, known := b.shareConfigs.of[group]
	if known {
		return s
	}
	records, reads := b.conf.Groups.Share, b.conf.Groups.ShareGroup
	records.Renew = true
	own, err := b.groupConfigs(img, group)
	if err == nil {
		records, reads = b.conf.Groups.ShareOf(own.Share), own.ShareGroup
	}
	s = shareleader.Settings{Locks: records.Locks, Deliveries: int(records.Deliveries), Lock: records.Lock, Renew: records.Renew,
		Retry: records.Retry, RetryMax: records.RetryMax, Committed: reads.Committed, Reset: replica.Latest, Since: reads.Start.Ago,
		Letters: shareleader.LettersTo{Topic: records.DeadLetters, Whole: records.WholeLetters}}
	if err != nil {
		s.Letters.Unknown = fmt.Sprintf("the configs of group %q cannot be read: %v", group, err)
	}
	if reads.Start.Earliest {
		s.Reset = replica.Earliest
	}
	if len(b.shareConfigs.of) < maxShareConfigs {
		b.shareConfigs.of[group] = s
	}
	return s
}

// maxShareConfigs bounds for how many groups the settings are remembered: clients choose the names.
const maxShareConfigs = 10_000

// InspectShare returns a share partition whose data partition this broker leads. It does not block.
func (b *Handler) InspectShare(k format.Key) sharestate.Led {
	p, err := b.opt.Replicas.Partition(k.Topic, k.Partition)
	if err != nil || b.shares == nil {
		return sharestate.Led{Err: kerr.NotLeaderForPartition}
	}
	return b.shares.Inspect(k, p)
}

// ShareStateChanged reports that the stored state of a share partition whose data partition this
// broker leads has changed in another way than by its writes. It does not block.
func (b *Handler) ShareStateChanged(c sharestate.Changed) {
	if b.shares != nil {
		b.shares.Changed(c.Key, c.ID, c.Leader)
	}
}
