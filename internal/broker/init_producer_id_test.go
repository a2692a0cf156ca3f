package broker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
)

func producerIDRequest(transactional *string, id int64, epoch int16) *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis = transactional, id, epoch, 60_000
	return req
}

func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	fs := vfs.Memory()
	seen := map[int64]bool{}
	for range 2 { // starts of the broker
		t.Run("", func(t *testing.T) {
			n := newNode(t, func(o *nodeOptions) { o.fs = fs })
			w := n.dial(t)
			for i := range 2*controller.ProducerIDBlockSize + 5 {
				resp := ask[*kmsg.InitProducerIDResponse](t, w, int16(i%6), producerIDRequest(nil, -1, -1))
				if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 || seen[resp.ProducerID] {
					t.Fatalf("%d of this start: %+v", i, resp)
				}
				seen[resp.ProducerID] = true
			}
		})
	}
}

func TestInitProducerIdRefusals(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	for _, c := range []struct {
		name    string
		version int16
		req     *kmsg.InitProducerIDRequest
		want    *kerr.Error
	}{
		{"an idempotent producer that had an id gets a new one", 3, producerIDRequest(nil, 5, 7), nil},
		{"an id without an epoch", 3, producerIDRequest(nil, 5, -1), kerr.InvalidRequest},
		{"an epoch without an id", 5, producerIDRequest(nil, -1, 0), kerr.InvalidRequest},
	} {
		resp := ask[*kmsg.InitProducerIDResponse](t, w, c.version, c.req)
		if kerr.TypedErrorForCode(resp.ErrorCode) != c.want || c.want != nil && (resp.ProducerID != -1 || resp.ProducerEpoch != -1) ||
			c.want == nil && (resp.ProducerEpoch != 0 || resp.ProducerID == 5) {
			t.Errorf("%s, version %d: %+v", c.name, c.version, resp)
		}
	}
}

// A client that never asks for its coordinator also gets one. Until then the answer is to look for
// one, as in Kafka.
func TestTheFirstTransactionalProducerCreatesItsCoordinator(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	init := func(id string) *kmsg.InitProducerIDResponse {
		return ask[*kmsg.InitProducerIDResponse](t, w, 5, producerIDRequest(&id, -1, -1))
	}
	for range 2 {
		if resp := init(""); resp.ErrorCode != kerr.NotCoordinator.Code || resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
			t.Fatalf("%+v", resp)
		}
	}
	must(t, n.applier.WaitFor(t.Context(), n.applier.Image().Version()))
	if n.image().Topic("__transaction_state") != nil {
		t.Error("an invalid request created the topic")
	}
	eventually(t, "transactions have a coordinator", func() bool {
		resp := init("tx")
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil && !kerr.IsRetriable(err) {
			t.Fatal(err)
		}
		return resp.ErrorCode == 0 && resp.ProducerID >= 0 && resp.ProducerEpoch == 0
	})
}

// A transactional producer keeps its id, and every call of InitProducerId raises its epoch.
func TestATransactionalProducerKeepsItsID(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	eventually(t, "transactions have a coordinator", func() bool {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys = transactionCoordinator, []string{"tx"}
		found := ask[*kmsg.FindCoordinatorResponse](t, w, 4, req).Coordinators[0]
		describe := kmsg.NewPtrDescribeTransactionsRequest()
		describe.TransactionalIDs = []string{"tx", ""}
		states := ask[*kmsg.DescribeTransactionsResponse](t, w, 0, describe).TransactionStates
		return found.ErrorCode == 0 && found.NodeID == 1 && states[0].ErrorCode == kerr.TransactionalIDNotFound.Code &&
			!kerr.IsRetriable(kerr.ErrorForCode(states[1].ErrorCode))
	})
	id := int64(-1)
	for v := int16(0); v <= 5; v++ {
		resp := ask[*kmsg.InitProducerIDResponse](t, w, v, producerIDRequest(kmsg.StringPtr("tx"), -1, -1))
		if v > 0 && resp.ProducerID != id || resp.ErrorCode != 0 || resp.ProducerID < 0 || resp.ProducerEpoch != v {
			t.Fatalf("version %d: %+v, the id was %d", v, resp, id)
		}
		id = resp.ProducerID
	}
	resp := ask[*kmsg.InitProducerIDResponse](t, w, 5, producerIDRequest(kmsg.StringPtr(""), -1, -1))
	if resp.ErrorCode != kerr.InvalidRequest.Code || resp.ProducerID != -1 {
		t.Errorf("without a name: %+v", resp)
	}
}

// failingStore makes transactions fail while the test says so.
type failingStore struct {
	metadata.Store
	err atomic.Pointer[error]
}

func (s *failingStore) Txn(ctx context.Context, txn metadata.Txn) (int64, error) {
	if err := s.err.Load(); err != nil {
		return 0, *err
	}
	return s.Store.Txn(ctx, txn)
}

func TestAStoreThatFailsIsAnErrorAndNoID(t *testing.T) {
	var store failingStore
	n := newNode(t, func(o *nodeOptions) {
		o.store = func(s metadata.Store) metadata.Store { store.Store = s; return &store }
	})
	w := n.dial(t)
	fail := func(err error) { store.err.Store(&err) }
	for _, c := range []struct {
		err       error
		id, topic *kerr.Error
	}{
		{metadata.ErrFailed, kerr.KafkaStorageError, kerr.KafkaStorageError},
		{metadata.ErrClosed, kerr.CoordinatorNotAvailable, kerr.NotController},
		{metadata.ErrUnavailable, kerr.CoordinatorNotAvailable, kerr.RequestTimedOut},
		{metadata.ErrUnknown, kerr.CoordinatorNotAvailable, kerr.RequestTimedOut},
		{&metadata.ConflictError{}, kerr.CoordinatorNotAvailable, kerr.RequestTimedOut},
		{errors.New("an unexpected error"), kerr.UnknownServerError, kerr.UnknownServerError},
	} {
		fail(c.err)
		resp := ask[*kmsg.InitProducerIDResponse](t, w, 5, producerIDRequest(nil, -1, -1))
		if resp.ErrorCode != c.id.Code || resp.ProducerID != -1 {
			t.Errorf("%v: %+v", c.err, resp)
		}
		made := ask[*kmsg.CreateTopicsResponse](t, w, 7, createRequest(false, newTopic("t", 1, 1))).Topics[0]
		if made.ErrorCode != c.topic.Code || made.ErrorMessage == nil {
			t.Errorf("%v: %+v", c.err, made)
		}
	}
	store.err.Store(nil)
	if resp := ask[*kmsg.InitProducerIDResponse](t, w, 5, producerIDRequest(nil, -1, -1)); resp.ErrorCode != 0 {
		t.Errorf("the store works again: %+v", resp)
	}
}

// The next block is requested before the last id is used, and only once.
func TestABlockIsFetchedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p producerIDs
		loads := 0
		load := func() { loads++ } // called with the mutex held
		ended := make(chan int64)
		go func() {
			id, err := p.wait(t.Context(), load)
			if err != nil {
				t.Error(err)
			}
			ended <- id
		}()
		synctest.Wait()
		p.loaded(100, 20, nil)
		if id := <-ended; id != 100 || loads != 1 {
			t.Fatalf("id %d after %d loads", id, loads)
		}
		for want := int64(101); want < 120; want++ {
			if id, ok := p.take(load); !ok || id != want {
				t.Fatalf("id %d %t, want %d", id, ok, want)
			}
			if ahead := want >= 117; ahead != (loads == 2) { // a tenth is left
				t.Errorf("after id %d: %d loads", want, loads)
			}
		}
		if _, ok := p.take(load); ok || loads != 2 {
			t.Errorf("an id of nothing: %t, %d loads", ok, loads)
		}
		p.loaded(0, 0, errors.New("no"))
		go func() {
			_, err := p.wait(t.Context(), load)
			if err == nil {
				t.Error("no error from a load that failed")
			}
			ended <- -1
		}()
		synctest.Wait()
		p.loaded(0, 0, errors.New("no"))
		<-ended
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.wait(ctx, load); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait without end: %v", err)
		}
		p.loaded(200, 1, nil)
		if id, ok := p.take(load); !ok || id != 200 {
			t.Errorf("id %d %t", id, ok)
		}
	})
}
