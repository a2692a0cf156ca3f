package broker

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
)

// permitter is the coordinator of all transactions: it gives a permit, or what answer returns.
type permitter struct {
	mu     sync.Mutex
	asked  []gate.Question
	answer func(gate.Question) gate.Answer
}

func (p *permitter) Ask(q gate.Question, done func(gate.Answer)) {
	p.mu.Lock()
	p.asked = append(p.asked, q)
	answer := p.answer
	p.mu.Unlock()
	go func() { // Ask must not block
		a := gate.Answer{CoordinatorEpoch: 3}
		if answer != nil {
			a = answer(q)
		}
		done(a)
	}()
}

// questions returns the questions so far.
func (p *permitter) questions() []gate.Question {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// forget forgets the questions so far.
func (p *permitter) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = nil
}

// permitted returns a node whose transactions p permits, with topic "t" of two partitions.
func permitted(t *testing.T, p *permitter) (*node, *wire) {
	t.Helper()
	n := newNode(t, quick, func(o *nodeOptions) { o.broker = func(o *Options) { o.Coordinators = p } })
	n.topic(t, "t", 2)
	n.coordinates(t)
	c := n.dial(t)
	return n, c
}

// commitInTxn commits offset 7 for partitions of "t" in a transaction of a producer.
func commitInTxn(t testing.TB, w *wire, version int16, groupID string, producer int64, partitions ...int32) []int16 {
	t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Group, req.TransactionalID, req.ProducerID, req.ProducerEpoch = groupID, "x", producer, 4
	one := kmsg.NewTxnOffsetCommitRequestTopic()
	one.Topic = "t"
	if version >= 6 {
		one.TopicID = ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(false, "t")).Topics[0].TopicID
	}
	for _, i := range partitions {
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = i, 7, kmsg.StringPtr("note")
		one.Partitions = append(one.Partitions, p)
	}
	req.Topics = append(req.Topics, one)
	resp := ask[*kmsg.TxnOffsetCommitResponse](t, w, version, req)
	var codes []int16
	for i, p := range resp.Topics[0].Partitions {
		if p.Partition != partitions[i] || version < 6 && resp.Topics[0].Topic != "t" || resp.Topics[0].TopicID != one.TopicID {
			t.Errorf("version %d: %+v", version, resp.Topics[0])
		}
		codes = append(codes, p.ErrorCode)
	}
	return codes
}

// marked ends the transaction of a producer in the group's partition.
func (n *node) marked(t testing.TB, groupID string, producer int64, commit bool) {
	t.Helper()
	shard, _ := n.groups.Partition(groupID)
	done := make(chan error, 1)
	n.groups.WriteMarker(shard, group.Marker{ProducerID: producer, Epoch: 5, CoordinatorEpoch: 3, Commit: commit, Bumps: true},
		func(err error) { done <- err })
	must(t, <-done)
}

// stableOffset requests the offset of partition 0 with require_stable.
func stableOffset(t testing.TB, w *wire, n *node, version int16, groupID string) (offset int64, code int16) {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable, req.Topics = groupID, true, []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group, one.Topics = groupID, []kmsg.OffsetFetchRequestGroupTopic{some(n.image().Topic("t").ID, "t", 0)}
	req.Groups = []kmsg.OffsetFetchRequestGroup{one}
	resp := ask[*kmsg.OffsetFetchResponse](t, w, version, req)
	if version < 8 {
		p := resp.Topics[0].Partitions[0]
		return p.Offset, p.ErrorCode
	}
	p := resp.Groups[0].Topics[0].Partitions[0]
	return p.Offset, p.ErrorCode
}

// G4: every version of both requests. Versions from 5 on add the group's partition to the
// transaction; the earlier ones ask whether the client has.
func TestOffsetsAreCommittedWithTheirTransaction(t *testing.T) {
	p := &permitter{}
	n, w := permitted(t, p)
	unknown, unstable := kerr.UnknownTopicOrPartition.Code, kerr.UnstableOffsetCommit.Code
	for v := int16(0); v <= 6; v++ {
		g := fmt.Sprint("g", v)
		if got := commitInTxn(t, w, v, g, int64(v), 9, 0, -1); !slices.Equal(got, []int16{unknown, 0, unknown}) {
			t.Fatalf("version %d: %d", v, got)
		}
		shard, _ := n.groups.Partition(g)
		asked := p.questions()
		q := asked[len(asked)-1]
		if len(p.questions()) != int(v)+1 || q.ID != "x" || q.ProducerID != int64(v) || q.Epoch != 4 || q.Add != (v >= 5) ||
			len(q.Partitions) != 1 || q.Partitions[0].Topic != "__consumer_offsets" || q.Partitions[0].Index != shard ||
			q.Deadline.IsZero() {
			t.Errorf("version %d: asked %+v", v, q)
		}
		commitInTxn(t, w, v, g, int64(v), 0) // the open transaction needs no further permit
		if len(p.questions()) != int(v)+1 {
			t.Errorf("version %d asks again", v)
		}
		for f := int16(1); f <= 10; f++ {
			want, code := int64(-1), int16(0)
			if f >= 7 {
				code = unstable
			}
			if got, c := stableOffset(t, w, n, f, g); got != want || c != code {
				t.Errorf("version %d of OffsetFetch, open: %d, %d", f, got, c)
			}
		}
		n.marked(t, g, int64(v), v != 3)
		for f := int16(1); f <= 10; f++ {
			want := int64(7)
			if v == 3 {
				want = -1
			}
			if got, c := stableOffset(t, w, n, f, g); got != want || c != 0 {
				t.Errorf("version %d of OffsetFetch, ended: %d, %d", f, got, c)
			}
		}
	}
	if got := commitInTxn(t, w, 5, "g", 1, 9); got[0] != unknown || len(p.questions()) != 7 {
		t.Errorf("no partition exists: %d", got)
	}
}

// Version 6 names topics by id and knows the errors of KIP-848 (KIP-1319).
func TestOffsetsOfATransactionNameTopicsByID(t *testing.T) {
	p := &permitter{}
	_, w := permitted(t, p)
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Group, req.TransactionalID, req.ProducerID = "none", "x", 1
	one := kmsg.NewTxnOffsetCommitRequestTopic()
	one.TopicID, one.Partitions = [16]byte{1}, []kmsg.TxnOffsetCommitRequestTopicPartition{kmsg.NewTxnOffsetCommitRequestTopicPartition()}
	req.Topics = append(req.Topics, one)
	if got := ask[*kmsg.TxnOffsetCommitResponse](t, w, 6, req).Topics[0].Partitions[0].ErrorCode; got != kerr.UnknownTopicID.Code {
		t.Errorf("version 6: %d, want kerr.UnknownTopicID", got)
	}
	req.Topics[0].TopicID = ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(false, "t")).Topics[0].TopicID
	req.Topics[0].Topic = "t"
	req.Generation, req.MemberID = 3, "m"
	if got := ask[*kmsg.TxnOffsetCommitResponse](t, w, 6, req).Topics[0].Partitions[0].ErrorCode; got != kerr.GroupIDNotFound.Code {
		t.Errorf("version 6: %d, want kerr.GroupIDNotFound", got)
	}
	if got := ask[*kmsg.TxnOffsetCommitResponse](t, w, 5, req).Topics[0].Partitions[0].ErrorCode; got != kerr.IllegalGeneration.Code {
		t.Errorf("version 5: %d, want kerr.IllegalGeneration", got)
	}
}

// The answers of the transaction's coordinator, in every version.
func TestOffsetsThatMayNotJoinATransaction(t *testing.T) {
	p := &permitter{}
	_, w := permitted(t, p)
	for answer, want := range map[*kerr.Error][6]*kerr.Error{
		kerr.ProducerFenced:            six(0, nil, kerr.InvalidProducerEpoch),
		kerr.InvalidProducerEpoch:      six(0, nil, kerr.InvalidProducerEpoch),
		kerr.InvalidProducerIDMapping:  six(0, nil, kerr.InvalidProducerIDMapping),
		kerr.InvalidTxnState:           six(0, nil, kerr.InvalidTxnState),
		kerr.TransactionAbortable:      six(4, kerr.InvalidTxnState, kerr.TransactionAbortable),
		kerr.ConcurrentTransactions:    six(2, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress),
		kerr.NotCoordinator:            six(2, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress),
		kerr.CoordinatorNotAvailable:   six(2, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress),
		kerr.CoordinatorLoadInProgress: six(2, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress),
		kerr.UnknownTopicOrPartition:   six(2, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress),
	} {
		for v := int16(0); v <= 5; v++ {
			for place, a := range map[string]gate.Answer{"whole": {Err: answer}, "partition": {Partitions: []*kerr.Error{answer}}} {
				p.mu.Lock()
				p.answer = func(gate.Question) gate.Answer { return a }
				p.mu.Unlock()
				if got := commitInTxn(t, w, v, "g", 1, 0, 1); !slices.Equal(got, []int16{want[v].Code, want[v].Code}) {
					t.Errorf("%s of the %s in version %d: %d", answer.Message, place, v, got)
				}
			}
		}
	}
}

// six returns an error for each of six versions: another one from first on.
func six(first int, before, from *kerr.Error) (list [6]*kerr.Error) {
	for v := range list {
		if list[v] = before; v >= first {
			list[v] = from
		}
	}
	return list
}

// G2: a marker that arrives between question and answer makes the answer worthless. The coordinator
// is asked again, three times at most; before version 5 not at all, because the epoch does not say
// to which transaction the offsets belong.
func TestAMarkerDuringTheQuestionMakesTheGroupAskAgain(t *testing.T) {
	p := &permitter{}
	n, w := permitted(t, p)
	shard, _ := n.groups.Partition("g")
	for _, c := range []struct {
		producer       int64
		markers, asked int
		version        int16
		want           *kerr.Error
	}{
		{1, 1, 2, 5, nil},
		{2, 2, 3, 5, nil},
		{3, 100, 3, 5, kerr.CoordinatorLoadInProgress},
		{4, 1, 1, 1, kerr.CoordinatorNotAvailable},
		{5, 1, 1, 4, kerr.CoordinatorLoadInProgress},
	} {
		p.forget()
		p.mu.Lock()
		p.answer = func(gate.Question) gate.Answer {
			if len(p.questions()) <= c.markers {
				done := make(chan error, 1)
				n.groups.WriteMarker(shard, group.Marker{ProducerID: c.producer, Epoch: 4, CoordinatorEpoch: 3},
					func(err error) { done <- err })
				must(t, <-done)
			}
			return gate.Answer{CoordinatorEpoch: 3}
		}
		p.mu.Unlock()
		if got := commitInTxn(t, w, c.version, "g", c.producer, 0); got[0] != errorCode(c.want) || len(p.questions()) != c.asked {
			t.Errorf("%d markers: %d after %d questions", c.markers, got, len(p.questions()))
		}
	}
	p.mu.Lock()
	p.answer = func(gate.Question) gate.Answer { return gate.Answer{CoordinatorEpoch: 2} }
	p.mu.Unlock()
	if got := commitInTxn(t, w, 5, "g", 3, 0); got[0] != kerr.CoordinatorLoadInProgress.Code {
		t.Errorf("permitted by a coordinator that the marker's has replaced: %d", got)
	}
}

// Histories 66 and 67: neither a group nor an offset goes while a transaction may commit it.
func TestPendingOffsetsKeepTheirGroup(t *testing.T) {
	n, w := permitted(t, &permitter{})
	if got := commitInTxn(t, w, 5, "g", 1, 0); got[0] != 0 {
		t.Fatal(got)
	}
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"g"}
	if got := ask[*kmsg.DeleteGroupsResponse](t, w, 2, remove).Groups[0].ErrorCode; got != kerr.NonEmptyGroup.Code {
		t.Errorf("DeleteGroups: %d", got)
	}
	offset := kmsg.NewPtrOffsetDeleteRequest()
	offset.Group = "g"
	offset.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	if got := ask[*kmsg.OffsetDeleteResponse](t, w, 0, offset).Topics[0].Partitions[0].ErrorCode; got != kerr.GroupSubscribedToTopic.Code {
		t.Errorf("OffsetDelete: %d", got)
	}
	n.marked(t, "g", 1, true)
	if got := fetched(t, w, 9, "g", nil); got != "t/0=7 note" {
		t.Error(got)
	}
	if got := ask[*kmsg.DeleteGroupsResponse](t, w, 2, remove).Groups[0].ErrorCode; got != 0 {
		t.Errorf("after the marker: %d", got)
	}
}
