package group

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// transact is a producer's identity at a peer, and its transactional id.
type transact struct {
	id    string
	pid   int64
	epoch int16
}

// producer begins to use a transactional id.
func (p *play) producer() *transact {
	p.t.Helper()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey, find.CoordinatorType = 3, p.group, 1
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version, init.TransactionalID, init.TransactionTimeoutMillis = 4, kmsg.StringPtr(p.group), 60_000
	for range 50 {
		if _, ours := p.peer.(*world); !ours {
			p.quietly(find)
		}
		if r := p.quietly(init).(*kmsg.InitProducerIDResponse); r.ErrorCode == 0 {
			return &transact{p.group, r.ProducerID, r.ProducerEpoch}
		}
		time.Sleep(300 * time.Millisecond)
	}
	p.t.Fatal("no producer id")
	return nil
}

// quietly sends a request and does not record the response.
func (p *play) quietly(req kmsg.Request) kmsg.Response {
	p.t.Helper()
	resp, err := p.peer.ask(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp
}

func (x *transact) commit(group, member string, generation int32, topic string, partition int32,
	offset int64) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = 5, x.id, x.pid, x.epoch
	req.Group, req.MemberID, req.Generation = group, member, generation
	q := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	q.Partition, q.Offset, q.LeaderEpoch, q.Metadata = partition, offset, 4, kmsg.StringPtr("note")
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{q}}}
	return req
}

func (p *play) txnCommit(name string, x *transact, member string, generation, partition int32, offset int64,
	edit ...func(*kmsg.TxnOffsetCommitRequest)) {
	p.t.Helper()
	req := x.commit(p.group, member, generation, "script", partition, offset)
	for _, f := range edit {
		f(req)
	}
	p.do(name, req)
}

// end ends the transaction and waits for its marker.
func (p *play) end(x *transact, commit bool) {
	p.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = 5, x.id, x.pid, x.epoch, commit
	r := p.quietly(req).(*kmsg.EndTxnResponse)
	if r.ErrorCode != 0 {
		p.t.Fatal(kerr.ErrorForCode(r.ErrorCode))
	}
	x.epoch = r.ProducerEpoch
	for range 50 {
		if g := p.quietly(p.fetch(true, 0, 1, 2, 3)).(*kmsg.OffsetFetchResponse).Groups[0]; g.ErrorCode == 0 {
			if isStable(g) {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.t.Fatal("no marker")
}

func isStable(g kmsg.OffsetFetchResponseGroup) bool {
	for _, t := range g.Topics {
		for _, q := range t.Partitions {
			if q.ErrorCode == kerr.UnstableOffsetCommit.Code {
				return false
			}
		}
	}
	return true
}

// fetch requests offsets of partitions, of all without any.
func (p *play) fetch(stable bool, partitions ...int32) *kmsg.OffsetFetchRequest {
	fetch, g := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
	g.Group = p.group
	if len(partitions) > 0 {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "script", Partitions: partitions}}
	}
	fetch.Version, fetch.RequireStable, fetch.Groups = 9, stable, []kmsg.OffsetFetchRequestGroup{g}
	return fetch
}

func (p *play) fetched(name string) {
	p.t.Helper()
	p.do(name+": stable", p.fetch(true, 0, 1, 2))
	p.do(name+": unstable", p.fetch(false, 0, 1, 2))
	p.do(name+": all", p.fetch(false))
}

func playTransaction(p *play) {
	x := p.producer()
	p.txnCommit("to no group", x, "", -1, 0, 5, func(r *kmsg.TxnOffsetCommitRequest) { r.Group = "" })
	p.txnCommit("to an unknown group, with a generation", x, "m", 5, 0, 5)
	p.txnCommit("to an unknown group, with a member", x, "m", -1, 0, 5)
	p.end(x, false)
	p.commit("a commit before", "", -1, 0)
	p.txnCommit("to an unknown group", x, "", -1, 0, 10)
	p.txnCommit("another offset", x, "", -1, 0, 11)
	p.txnCommit("another partition", x, "", -1, 1, 12)
	p.txnCommit("long metadata", x, "", -1, 2, 12, func(r *kmsg.TxnOffsetCommitRequest) {
		r.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
	})
	p.fetched("pending")
	p.views("pending")
	p.commit("a commit later than the transaction's", "", -1, 1)
	p.fetched("a later commit")
	p.end(x, true)
	p.fetched("committed")
	x.epoch--
	p.txnCommit("an old epoch", x, "", -1, 0, 20)
	x.epoch++
	p.txnCommit("to be aborted", x, "", -1, 0, 21)
	p.end(x, false)
	p.fetched("aborted")
}

func playTransactionOfMembers(p *play) {
	x := p.producer()
	i := kmsg.StringPtr("i")
	a := p.join("a is given an id", "").MemberID
	r := p.join("a joins", a)
	p.txnCommit("before it has synced", x, a, r.Generation, 0, 1)
	p.sync("a syncs", a, r.Generation, nil, a, "all")
	p.txnCommit("in its generation", x, a, r.Generation, 0, 2)
	p.txnCommit("in another one", x, a, r.Generation+1, 0, 3)
	p.txnCommit("in none", x, a, -1, 0, 4)
	p.txnCommit("anonymous", x, "", -1, 0, 5)
	p.txnCommit("not a member", x, "q", r.Generation, 0, 6)
	p.txnCommit("an unknown instance", x, a, r.Generation, 0, 7, func(r *kmsg.TxnOffsetCommitRequest) { r.InstanceID = i })
	p.txnCommit("only an unknown instance", x, "", -1, 0, 8, func(r *kmsg.TxnOffsetCommitRequest) { r.InstanceID = i })
	p.fetched("pending")
	p.leave("a leaves", kmsg.LeaveGroupRequestMember{MemberID: a})
	p.txnCommit("after it left", x, a, r.Generation, 1, 9)
	p.txnCommit("a member of an empty group without generation", x, a, -1, 2, 9)
	p.end(x, true)
	p.fetched("committed")
}

func playTransactionOfConsumers(p *play) {
	x := p.producer()
	p.consume("a joins", "a", 0)
	p.txnCommit("in its epoch", x, "a", p.epoch["a"], 0, 1)
	p.assigned()
	p.consume("b joins", "b", 0)
	p.assigned()
	p.consume("a must revoke", "a", p.epoch["a"], p.has(0, 1, 2, 3))
	p.consume("a has revoked", "a", p.epoch["a"], p.has(0, 1))
	p.txnCommit("in its previous epoch", x, "a", p.prev["a"], 0, 2)
	p.txnCommit("another's partition in its previous epoch", x, "a", p.prev["a"], 3, 3)
	p.txnCommit("in a future epoch", x, "a", p.epoch["a"]+3, 0, 4)
	p.txnCommit("in none", x, "a", -1, 0, 5)
	p.txnCommit("anonymous", x, "", -1, 0, 6)
	p.txnCommit("not a member", x, "q", p.epoch["a"], 0, 7)
	p.fetched("pending")
	p.end(x, true)
	p.fetched("committed")
}

// askTxn does what the broker and a transaction coordinator do with a request: every permit is
// given, and a marker follows an EndTxn at once.
func (w *world) askTxn(req kmsg.Request) kmsg.Response {
	switch r := req.(type) {
	case *kmsg.InitProducerIDRequest:
		w.ids++
		resp := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ProducerID = int64(w.ids)
		return resp
	case *kmsg.EndTxnRequest:
		w.mark(Marker{ProducerID: r.ProducerID, Epoch: r.ProducerEpoch + 1, Commit: r.Commit, Bumps: true})
		resp := r.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ProducerID, resp.ProducerEpoch = r.ProducerID, r.ProducerEpoch+1
		return resp
	case *kmsg.TxnOffsetCommitRequest:
		return w.commitIn(r)
	}
	return nil
}

// mark sends a marker.
func (w *world) mark(m Marker) error {
	w.t.Helper()
	return ask[Marked](w, m).Err
}

// commitIn commits offsets in a transaction; the coordinator permits it.
func (w *world) commitIn(req *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	w.t.Helper()
	e := txnCommitOf(req)
	for {
		switch r := ask[any](w, e).(type) {
		case NeedsPermit:
			e.Permit = Permit{r.Guard, 1 << 30}
		case *kmsg.TxnOffsetCommitResponse:
			return r
		}
	}
}

func txnCommitOf(req *kmsg.TxnOffsetCommitRequest) TxnCommit {
	for i := range req.Topics {
		req.Topics[i].TopicID = idOf(req.Topics[i].Topic)
	}
	return TxnCommit{Body: req}
}
