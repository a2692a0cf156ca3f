package broker

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// permits is a transaction coordinator that says yes, or what a test wants.
type permits struct {
	mu     sync.Mutex
	asked  []gate.Question
	answer func(gate.Question, func(gate.Answer))
}

func (p *permits) Ask(q gate.Question, done func(gate.Answer)) {
	p.mu.Lock()
	p.asked = append(p.asked, q)
	answer := p.answer
	p.mu.Unlock()
	if answer == nil {
		done(gate.Answer{})
		return
	}
	answer(q, done)
}

func (p *permits) set(answer func(gate.Question, func(gate.Answer))) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.answer = nil, answer
}

func (p *permits) questions() []gate.Question {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func refuseWith(err *kerr.Error) func(gate.Question, func(gate.Answer)) {
	return func(_ gate.Question, done func(gate.Answer)) { done(gate.Answer{Err: err}) }
}

func silence(gate.Question, func(gate.Answer)) {}

// inTransaction is a batch of a transactional producer.
func inTransaction(t testing.TB, producer int64, epoch int16, seq int32, values ...string) []byte {
	t.Helper()
	return batchOf(t, record.BatchOptions{Transactional: true,
		Producer: &record.Producer{ID: producer, Epoch: epoch, Sequence: seq}}, time.Now().UnixMilli(), values...)
}

// txnRequest is a request for partitions of topic "t", from 0 on.
func txnRequest(id *string, batches ...[]byte) *kmsg.ProduceRequest {
	req := produceRequest("t", [16]byte{}, -1, batches[0])
	req.TransactionID = id
	for i, b := range batches[1:] {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i+1), b
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	return req
}

func codesOf(resp *kmsg.ProduceResponse) (list []error) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			list = append(list, kerr.ErrorForCode(p.ErrorCode))
		}
	}
	return list
}

func TestTransactionalProduceInEveryVersion(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	for version := int16(3); version <= 13; version++ {
		n.coordinators.set(nil)
		producer := int64(version)
		for seq := range int32(2) {
			req := txnRequest(kmsg.StringPtr("tx"), inTransaction(t, producer, 4, seq, "a"))
			req.Topics[0].TopicID = id
			if p := produced(t, w, version, req); p.ErrorCode != 0 || p.BaseOffset < 0 {
				t.Fatalf("version %d: %+v", version, p)
			}
		}
		asked := n.coordinators.questions()
		if len(asked) != 1 {
			t.Fatalf("version %d: %d questions", version, len(asked))
		}
		q := asked[0]
		if q.ID != "tx" || q.ProducerID != producer || q.Epoch != 4 || q.Add != (version >= 12) || len(q.Partitions) != 1 ||
			q.Partitions[0].Topic != "t" || time.Until(q.Deadline) < time.Minute {
			t.Errorf("version %d: %+v", version, q)
		}
	}
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	if h, ok := n.opt.Gate.Holder(p, 13); !ok || h.ClientID != "test" || h.TransactionalID != "tx" || h.Address == "" {
		t.Errorf("holder %+v", h)
	}
}

// Kafka 4.3 answers the same, except for acks.
func TestTransactionalProduceIsRefusedWithKafkasErrors(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 2)
	n.setTopic(t, "__consumer_offsets")
	tx, empty := kmsg.StringPtr("tx"), kmsg.StringPtr("")
	control := batchOf(t, record.BatchOptions{Transactional: true, Control: true, Producer: &record.Producer{ID: 7}}, 1, "a")
	good := inTransaction(t, 7, 0, 0, "a")
	for _, c := range []struct {
		name     string
		req      *kmsg.ProduceRequest
		topic    string
		acks     int16
		versions []int16
		want     []*kerr.Error
		message  string
	}{
		{name: "no id", req: txnRequest(nil, good, plain(t, "b")), message: "no transactional id",
			want: []*kerr.Error{kerr.TransactionalIDAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed}},
		{name: "empty id", req: txnRequest(empty, good), want: []*kerr.Error{kerr.InvalidRequest}, message: "empty"},
		{name: "two producers", req: txnRequest(tx, good, inTransaction(t, 8, 0, 0, "b")), message: "one request for each",
			want: []*kerr.Error{kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping}},
		{name: "two epochs", req: txnRequest(tx, good, inTransaction(t, 7, 1, 0, "b")),
			want: []*kerr.Error{kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping}},
		{name: "acks 1", req: txnRequest(tx, good, plain(t, "b")), acks: 1, message: "acks=all",
			want: []*kerr.Error{kerr.InvalidRequiredAcks, kerr.InvalidRequiredAcks}},
		// History 72.
		{name: "a control batch", req: txnRequest(tx, control), want: []*kerr.Error{kerr.InvalidRecord}, message: "control"},
		{name: "an internal topic", req: txnRequest(tx, good), topic: "__consumer_offsets", message: "internal",
			want: []*kerr.Error{kerr.InvalidTopicException}},
		{name: "the wrong sequence of a new epoch", req: txnRequest(tx, inTransaction(t, 7, 0, 5, "a")), versions: []int16{12},
			want: []*kerr.Error{kerr.OutOfOrderSequenceNumber}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.acks != 0 {
				c.req.Acks = c.acks
			}
			if c.topic != "" {
				c.req.Topics[0].Topic = c.topic
			}
			if c.versions == nil {
				c.versions = []int16{10, 11, 12}
			}
			for _, version := range c.versions {
				resp := ask[*kmsg.ProduceResponse](t, n.dial(t), version, c.req)
				for i, got := range codesOf(resp) {
					if !errors.Is(got, c.want[i]) {
						t.Errorf("version %d, partition %d: %v, want %v", version, i, got, c.want[i])
					}
				}
				if m := resp.Topics[0].Partitions[0].ErrorMessage; m == nil || !strings.Contains(*m, c.message) {
					t.Errorf("version %d: message %v, want one with %q", version, m, c.message)
				}
			}
		})
	}
	if end := n.highWatermark(t, n.image().Topic("t").ID); end != 0 {
		t.Errorf("something was stored: %d", end)
	}
}

// setTopic creates an internal topic.
func (n *node) setTopic(t testing.TB, name string) {
	t.Helper()
	n.groups.Ensure()
	eventually(t, name, func() bool { return n.image().Topic(name) != nil })
}

// The coordinator's answers, as each version of Produce knows them.
func TestTheCoordinatorsAnswersByVersion(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	w := n.dial(t)
	for _, c := range []struct {
		answer *kerr.Error
		want   map[int16]*kerr.Error
	}{
		{kerr.InvalidProducerIDMapping, map[int16]*kerr.Error{3: kerr.InvalidProducerIDMapping, 12: kerr.InvalidProducerIDMapping}},
		{kerr.ProducerFenced, map[int16]*kerr.Error{3: kerr.InvalidProducerEpoch, 11: kerr.InvalidProducerEpoch,
			12: kerr.InvalidProducerEpoch}},
		{kerr.TransactionAbortable, map[int16]*kerr.Error{3: kerr.InvalidTxnState, 10: kerr.InvalidTxnState,
			11: kerr.TransactionAbortable, 12: kerr.TransactionAbortable}},
		{kerr.InvalidTxnState, map[int16]*kerr.Error{10: kerr.InvalidTxnState, 11: kerr.TransactionAbortable}},
	} {
		n.coordinators.set(refuseWith(c.answer))
		for version, want := range c.want {
			p := produced(t, w, version, txnRequest(kmsg.StringPtr("tx"), inTransaction(t, 7, 0, 0, "a")))
			if !errors.Is(kerr.ErrorForCode(p.ErrorCode), want) {
				t.Errorf("%v, version %d: %v, want %v", c.answer, version, kerr.ErrorForCode(p.ErrorCode), want)
			}
			if version >= 8 && (p.ErrorMessage == nil || !strings.Contains(*p.ErrorMessage, `"tx"`)) {
				t.Errorf("%v, version %d: message %v", c.answer, version, p.ErrorMessage)
			}
		}
	}
	unverified := &produceOp{b: new(Handler), r: new(network.Request)}
	for version, want := range map[int16]*kerr.Error{10: kerr.InvalidTxnState, 11: kerr.TransactionAbortable} {
		if unverified.view.Version = version; unverified.code(storage.ErrUnverified) != want.Code {
			t.Errorf("version %d: a batch without a permit has not %v", version, want)
		}
	}
	unverified.view.Version = 12
	if got := unverified.code(storage.ErrTransactionOpen); got != kerr.InvalidTxnState.Code {
		t.Errorf("a plain batch in a transaction has code %d", got)
	}
}

// As in Kafka, a request may also have plain batches; they don't wait. A transactional id alone
// changes nothing.
func TestPlainBatchesInATransactionalRequest(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 2)
	w := n.dial(t)
	n.coordinators.set(refuseWith(kerr.TransactionAbortable))
	resp := ask[*kmsg.ProduceResponse](t, w, 12, txnRequest(kmsg.StringPtr("tx"), inTransaction(t, 7, 0, 0, "a"), plain(t, "b")))
	if got := codesOf(resp); !errors.Is(got[0], kerr.TransactionAbortable) || got[1] != nil {
		t.Fatalf("%v", got)
	}
	for _, version := range []int16{11, 12} {
		resp = ask[*kmsg.ProduceResponse](t, w, version, txnRequest(kmsg.StringPtr("tx"), plain(t, "a"), plain(t, "b")))
		if got := codesOf(resp); got[0] != nil || got[1] != nil {
			t.Fatalf("%v", got)
		}
	}
	if asked := n.coordinators.questions(); len(asked) != 1 {
		t.Fatalf("%d questions", len(asked))
	}
}

// A transaction that begins in 100 partitions is one question to the coordinator.
func TestATransactionOverManyPartitionsAsksOnce(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 100)
	var batches [][]byte
	for range 100 {
		batches = append(batches, inTransaction(t, 7, 0, 0, "a"))
	}
	for _, err := range codesOf(ask[*kmsg.ProduceResponse](t, n.dial(t), 12, txnRequest(kmsg.StringPtr("tx"), batches...))) {
		must(t, err)
	}
	if asked := n.coordinators.questions(); len(asked) != 1 || len(asked[0].Partitions) != 100 {
		t.Fatalf("%d questions", len(asked))
	}
}

// History 39: the coordinator is down. Plain batches on the same connection are stored at once,
// only the order of answers waits. Then the request times out.
func TestHistory39PlainBatchesDoNotWaitForTheCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.pipe = true })
		id := n.topic(t, "t", 1)
		n.coordinators.set(silence)
		w := n.dial(t)
		defer w.Close()
		first := txnRequest(kmsg.StringPtr("tx"), inTransaction(t, 7, 0, 0, "a"))
		first.TimeoutMillis = 5000
		first.SetVersion(12)
		began := time.Now()
		must(t, w.send(first))
		second := produceRequest("t", [16]byte{}, -1, plain(t, "b"))
		second.SetVersion(12)
		must(t, w.send(second))
		synctest.Wait()
		if got := n.highWatermark(t, id); got != 1 {
			t.Fatalf("high watermark %d: the plain batch waits", got)
		}
		w.correlation--
		resp, err := w.receive(first)
		must(t, err)
		if got := codesOf(resp.(*kmsg.ProduceResponse))[0]; !errors.Is(got, kerr.RequestTimedOut) || time.Since(began) != 5*time.Second {
			t.Fatalf("%v after %v", got, time.Since(began))
		}
		w.correlation++
		resp, err = w.receive(second)
		must(t, err)
		if got := codesOf(resp.(*kmsg.ProduceResponse))[0]; got != nil {
			t.Fatal(got)
		}
		if n.opt.Gate.Waiting() != 0 {
			t.Error("the batch is still at the gate")
		}
	})
}

// Some partitions of a request time out at the gate, others waited for nothing.
func TestATimeoutAtTheGateIsTheBatchesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.pipe = true })
		n.topic(t, "t", 3)
		w := n.dial(t)
		defer w.Close()
		open := ask[*kmsg.ProduceResponse](t, w, 12, txnRequest(kmsg.StringPtr("tx"), inTransaction(t, 7, 0, 0, "a")))
		must(t, codesOf(open)[0])
		n.coordinators.set(silence)
		req := txnRequest(kmsg.StringPtr("tx"), inTransaction(t, 7, 0, 1, "b"), inTransaction(t, 7, 0, 0, "c"), plain(t, "d"))
		req.TimeoutMillis = 1000
		got := codesOf(ask[*kmsg.ProduceResponse](t, w, 12, req))
		if got[0] != nil || !errors.Is(got[1], kerr.RequestTimedOut) || got[2] != nil {
			t.Fatalf("%v", got)
		}
	})
}

// A connection that ends takes its batches from the gate; those of others stay.
func TestAConnectionThatEndsLeavesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.pipe = true })
		n.topic(t, "t", 2)
		var answers []func(gate.Answer)
		n.coordinators.set(func(_ gate.Question, done func(gate.Answer)) { answers = append(answers, done) })
		a, b := n.dial(t), n.dial(t)
		defer b.Close()
		one := txnRequest(kmsg.StringPtr("tx"), inTransaction(t, 7, 0, 0, "a"), inTransaction(t, 7, 0, 0, "a"))
		one.SetVersion(12)
		must(t, a.send(one))
		synctest.Wait()
		other := txnRequest(kmsg.StringPtr("ty"), inTransaction(t, 8, 0, 0, "b"))
		other.SetVersion(12)
		must(t, b.send(other))
		synctest.Wait()
		if got := n.opt.Gate.Waiting(); got != 3 {
			t.Fatalf("%d wait", got)
		}
		must(t, a.Close())
		synctest.Wait()
		if got := n.opt.Gate.Waiting(); got != 1 {
			t.Fatalf("%d wait after the end of a connection", got)
		}
		for _, done := range answers {
			done(gate.Answer{})
		}
		resp, err := b.receive(other)
		must(t, err)
		must(t, codesOf(resp.(*kmsg.ProduceResponse))[0])
		if p, err := n.partitionByName("t", 0); err != nil || p.Ends().HighWatermark != 1 {
			t.Fatalf("the batch of the ended connection was stored: %+v", p.Ends())
		}
	})
}

// Five requests in flight on one connection, whose first one waits: they are stored in order.
func TestPipelinedBatchesKeepTheirOrderAtTheGate(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.coordinators.set(func(_ gate.Question, done func(gate.Answer)) {
		time.AfterFunc(5*time.Millisecond, func() { done(gate.Answer{}) })
	})
	w := n.dial(t)
	first := w.correlation
	var sent []*kmsg.ProduceRequest
	for seq := range int32(5) {
		req := txnRequest(kmsg.StringPtr("tx"), inTransaction(t, 7, 0, seq, "a"))
		req.SetVersion(12)
		must(t, w.send(req))
		sent = append(sent, req)
	}
	for i, req := range sent {
		w.correlation = first + int32(i) + 1
		resp, err := w.receive(req)
		must(t, err)
		if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Fatalf("batch %d: %+v", i, p)
		}
	}
	if n.highWatermark(t, id) != 5 || len(n.coordinators.questions()) != 1 {
		t.Errorf("high watermark %d, %d questions", n.highWatermark(t, id), len(n.coordinators.questions()))
	}
}

// Requests expire while the coordinator's answer arrives, and their ops are reused: every answer
// reports success or timeout, and a reported success is true. Run with -race.
func TestExpiryAndTheCoordinatorsAnswerRace(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.coordinators.set(func(_ gate.Question, done func(gate.Answer)) {
		time.AfterFunc(time.Millisecond, func() { done(gate.Answer{}) })
	})
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	var clients sync.WaitGroup
	for c := range 4 {
		w := n.dial(t)
		clients.Go(func() {
			for i := range 100 {
				req := txnRequest(kmsg.StringPtr("tx"), inTransaction(t, int64(1000*c+i), 0, 0, "a"))
				req.TimeoutMillis = int32(i % 3)
				req.SetVersion(12)
				must(t, w.send(req))
				resp, err := w.receive(req)
				must(t, err)
				switch at := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; {
				case at.ErrorCode == kerr.RequestTimedOut.Code && at.BaseOffset == -1:
				case at.ErrorCode != 0 || at.BaseOffset < 0:
					t.Errorf("%+v", at)
				case p.Ends().HighWatermark <= at.BaseOffset:
					t.Errorf("offset %d was acknowledged above the high watermark", at.BaseOffset)
				}
			}
		})
	}
	clients.Wait()
	eventually(t, "an empty gate", func() bool { return n.opt.Gate.Waiting() == 0 })
}

// A follower's timeout concerns a batch that has passed the gate like any other.
func TestATimeoutAfterTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.pipe = true })
		id := n.topic(t, "t", 1)
		f := n.follow(t, id)
		w := n.dial(t)
		defer w.Close()
		req := txnRequest(kmsg.StringPtr("tx"), inTransaction(t, 7, 0, 0, "a"))
		req.TimeoutMillis = 20
		if got := codesOf(ask[*kmsg.ProduceResponse](t, w, 12, req))[0]; !errors.Is(got, kerr.RequestTimedOut) {
			t.Fatalf("%v", got)
		}
		f.acknowledge(1)
		p := produced(t, w, 12, txnRequest(kmsg.StringPtr("tx"), inTransaction(t, 7, 0, 0, "a")))
		if p.ErrorCode != 0 || p.BaseOffset != 0 {
			t.Fatalf("the repetition: %+v", p)
		}
	})
}

// A transactional id of a request without transactional batches has no meaning, and no right to it
// is needed, as in Kafka.
func TestOnlyTransactionalBatchesNeedARightToTheID(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) {
		o.broker = func(b *Options) {
			rules := acl.Compile([]acl.Binding{{Type: acl.Topic, Name: "t", Pattern: acl.Literal, Principal: "User:*", Host: "*",
				Operation: acl.Write, Permission: acl.Allow}}, acl.Options{})
			b.Rules = func() *acl.Rules { return rules }
		}
	})
	n.topic(t, "t", 2)
	w := n.dial(t)
	id := kmsg.StringPtr("tx")
	if got := codesOf(ask[*kmsg.ProduceResponse](t, w, 12, txnRequest(id, plain(t, "a"), plain(t, "b")))); got[0] != nil || got[1] != nil {
		t.Errorf("plain batches: %v", got)
	}
	for _, err := range codesOf(ask[*kmsg.ProduceResponse](t, w, 12, txnRequest(id, plain(t, "a"), inTransaction(t, 7, 0, 0, "b")))) {
		if !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
			t.Errorf("a transactional batch: %v", err)
		}
	}
}

// S4: a partition with 10,000 open transactions, of however many clients, begins no other one. The
// next producer gets a retriable error with the bound in its message. Open transactions continue,
// plain records are accepted, and when one has ended the next one begins.
func TestAPartitionWithTooManyOpenTransactions(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	var left sync.WaitGroup
	left.Add(producers.MaxOpen)
	for i := range int64(producers.MaxOpen) {
		batch := inTransaction(t, i, 0, 0, "a")
		p.Append(&replica.Append{LeaderEpoch: -1, Acks: replica.AcksAll, Permit: producers.Permit{Guard: p.Log().Guard(i)},
			Batches: record.Accepted{Bytes: batch, Batches: 1, Records: 1, AppendTime: -1},
			Done: func(a *replica.Append) {
				if a.Err != nil {
					t.Error(a.Err)
				}
				left.Done()
			}}, nil)
	}
	left.Wait()
	w := n.dial(t)
	next := func() kmsg.ProduceResponseTopicPartition {
		return produced(t, w, 12, txnRequest(kmsg.StringPtr("next"), inTransaction(t, producers.MaxOpen, 0, 0, "a")))
	}
	if got := next(); got.ErrorCode != kerr.NotEnoughReplicas.Code || got.ErrorMessage == nil ||
		!strings.Contains(*got.ErrorMessage, "too many transactions are open: 10000 in this partition") {
		t.Errorf("one too many: %s", said(got.ErrorCode, got.ErrorMessage))
	}
	for name, req := range map[string]*kmsg.ProduceRequest{
		"an open transaction": txnRequest(kmsg.StringPtr("first"), inTransaction(t, 0, 0, 1, "a")),
		"plain records":       txnRequest(nil, plain(t, "a")),
	} {
		if got := produced(t, w, 12, req); got.ErrorCode != 0 {
			t.Errorf("%s: %s", name, said(got.ErrorCode, got.ErrorMessage))
		}
	}
	ended := make(chan error, 1)
	p.Append(&replica.Append{LeaderEpoch: -1, Acks: replica.AcksAll, Kind: storage.Marker, Sender: producers.Sender{Bumps: true},
		Batches: record.Accepted{Bytes: record.EndTxnMarker(5, 1, record.Commit, 0, 1), Batches: 1, Records: 1, AppendTime: -1},
		Done:    func(a *replica.Append) { ended <- a.Err }}, nil)
	must(t, <-ended)
	if got := next(); got.ErrorCode != 0 {
		t.Errorf("after the end of another: %s", said(got.ErrorCode, got.ErrorMessage))
	}
}
