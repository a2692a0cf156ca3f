package broker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// repeated returns a topic's entry with an offset for each partition, some of them repeated.
func repeated(topic kmsg.FetchRequestTopic, partitions int32, offsets ...int64) kmsg.FetchRequestTopic {
	for i, offset := range offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(i)%partitions, offset, 1<<20
		topic.Partitions = append(topic.Partitions, p)
	}
	return topic
}

// A partition that is named again is answered once, for its last entry, at the place of the first:
// Kafka puts them into a map.
func TestAFetchAnswersAPartitionOnce(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.topic(t, "u", 1)
	n.put(t, "t", 3, "a")
	w := n.dial(t)
	few := kmsg.NewPtrFetchRequest()
	few.MinBytes, few.MaxBytes, few.SessionEpoch = 1, 1<<20, -1
	few.Topics = []kmsg.FetchRequestTopic{repeated(named("t", id), 1, 0, 1), repeated(named("u", [16]byte{}), 1, 0),
		repeated(named("t", id), 1, 2)}
	if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, few)); got != "t-0[0 3: [2]] u-0[0 0: []]" {
		t.Error(got)
	}
	many := kmsg.NewPtrFetchRequest()
	many.MinBytes, many.MaxBytes, many.SessionEpoch = 1, 1<<20, -1
	offsets := make([]int64, 3*fewParts)
	for i := range offsets {
		offsets[i] = 9
	}
	offsets[len(offsets)-2], offsets[len(offsets)-1] = 1, 0
	many.Topics = []kmsg.FetchRequestTopic{repeated(named("t", id), 2, offsets...)}
	if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, many)); got != "t-0[0 3: [1 2]] t-1[3 -1: []]" {
		t.Error(got)
	}
	many.SessionEpoch = 0
	first := ask[*kmsg.FetchResponse](t, w, 12, many)
	if got := show(t, first); got != "t-0[0 3: [1 2]] t-1[3 -1: []]" || first.SessionID == 0 {
		t.Error(got)
	}
	next := fetchRequest(0)
	next.SessionID, next.SessionEpoch = first.SessionID, 1
	if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, next)); got != "t-1[3 -1: []] t-0[0 3: [1 2]]" &&
		got != "t-0[0 3: [1 2]] t-1[3 -1: []]" {
		t.Error(got)
	}
}

// Parked fetches stay within their budget, however many partitions they name: a fetch that does not
// fit is answered at once, and its connection is throttled for as long as it would have waited.
func TestParkedFetchesStayWithinTheirBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, clients = 256 << 10, 30
		n := newNode(t, func(o *nodeOptions) { o.pipe, o.broker = true, func(b *Options) { b.ParkedBytes = limit } })
		id := n.topic(t, "t", 1)
		large := waiting(0, 1)
		large.MaxWaitMillis = 200
		large.Topics = []kmsg.FetchRequestTopic{repeated(named("t", id), 40, make([]int64, 200)...)} // 39 of them do not exist
		w := n.dial(t)
		defer w.Close()
		n.parked(t, w, 12, large)
		synctest.Wait()
		if used := n.Parked().Used; used < 40*partCost || used > 41*partCost+opCost {
			t.Errorf("%d bytes are counted for 40 partitions", used)
		}
		if got := w.fetched(t, large); len(got.Topics[0].Partitions) != 40 || got.ThrottleMillis != 0 {
			t.Errorf("%d partitions, throttled for %d ms", len(got.Topics[0].Partitions), got.ThrottleMillis)
		}
		for _, c := range []struct {
			partitions, answered int
			delay                time.Duration
		}{
			{manyParts, manyParts, 200 * time.Millisecond},
			{manyParts + 1, manyParts + 1, 200 * time.Millisecond},
			{limit/int(partCost) + 1, limit/int(partCost) + 1, 200 * time.Millisecond},
		} {
			large.Topics = []kmsg.FetchRequestTopic{repeated(named("t", id), int32(c.partitions), make([]int64, c.partitions)...)}
			began, answered := time.Now(), 0
			got := ask[*kmsg.FetchResponse](t, w, 12, large)
			for i := range got.Topics {
				answered += len(got.Topics[i].Partitions)
			}
			if time.Since(began) != 0 || int64(got.ThrottleMillis) != c.delay.Milliseconds() || answered != c.answered ||
				got.ErrorCode != 0 {
				t.Errorf("%d partitions: %d answered after %v, throttled for %d ms", c.partitions, answered, time.Since(began),
					got.ThrottleMillis)
			}
			if _ = ask[*kmsg.FetchResponse](t, w, 12, fetchRequest(0, named("t", id))); time.Since(began) != c.delay {
				t.Errorf("%d partitions: the throttled connection was read after %v", c.partitions, time.Since(began))
			}
		}

		small := waiting(0, 1)
		small.Topics = []kmsg.FetchRequestTopic{repeated(named("t", id), 40, make([]int64, 40)...)}
		small.SetVersion(12)
		var all []*wire
		for range clients {
			w := n.dial(t)
			must(t, w.send(small))
			all = append(all, w)
		}
		synctest.Wait()
		stats := n.Parked()
		if parked := n.park.Waiting(); stats.Used > limit || stats.Peak > limit || parked == 0 || parked == clients {
			t.Errorf("%d of %d wait, %+v", parked, clients, stats)
		}
		n.park.Close() // they all end now
		for _, w := range all {
			if got := w.fetched(t, small); len(got.Topics[0].Partitions) != 40 {
				t.Errorf("%d partitions", len(got.Topics[0].Partitions))
			}
		}
		synctest.Wait()
		if used := n.Parked().Used; used != 0 {
			t.Errorf("%d bytes are held by fetches that were answered", used)
		}
		for _, w := range all {
			must(t, w.Close())
		}
	})
}

// A fetch does not outlive its connection.
func TestAParkedFetchEndsWithItsConnection(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.put(t, "t", 1, "a")
	stays, goes := n.dial(t), n.dial(t)
	req := waiting(1, 1, named("t", id))
	n.parked(t, stays, 12, req)
	must(t, goes.send(req))
	n.waits(t, 2)
	held := n.Parked().Used
	must(t, goes.Conn.(*net.TCPConn).SetLinger(0))
	must(t, goes.Close())
	n.waits(t, 1)
	for begin := time.Now(); n.Parked().Used != held/2; time.Sleep(100 * time.Microsecond) {
		if time.Since(begin) > patience {
			t.Fatalf("%d bytes are counted, of %d for both", n.Parked().Used, held)
		}
	}
	n.put(t, "t", 1, "b")
	if got := show(t, stays.fetched(t, req)); got != "t-0[0 2: [1]]" {
		t.Error(got)
	}
}

// anyone is an Authenticator that logs in every client, for some time.
type anyone struct{ lasts *time.Duration }

func (anyone) Mechanisms(*network.Listener) []string { return []string{"PLAIN"} }
func (a anyone) Begin(_ *network.Listener, _, _ string) (network.Conversation, error) {
	return a, nil
}
func (a anyone) Step([]byte) ([]byte, *network.Identity, error) {
	return nil, &network.Identity{Principal: "User:bob", Mechanism: "PLAIN", Expires: time.Now().Add(*a.lasts)}, nil
}

// A fetch does not outlive the session of its client: a token that has expired gets no record that
// is written afterwards.
func TestAParkedFetchEndsWithItsSession(t *testing.T) {
	lasts := 50 * time.Millisecond
	n := newNode(t, func(o *nodeOptions) {
		o.listener.SASL = true
		o.network = func(opt *network.Options) { opt.Authenticator = anyone{&lasts} }
	})
	id := n.topic(t, "t", 1)
	req := waiting(0, 1, named("t", id))
	req.Version = 12
	for ; ; lasts *= 2 { // on a slow machine the session may be over before the fetch begins
		w := n.dial(t)
		for _, login := range []kmsg.Request{&kmsg.SASLHandshakeRequest{Version: 1, Mechanism: "PLAIN"},
			&kmsg.SASLAuthenticateRequest{Version: 2}} {
			must(t, w.send(login))
			_, err := w.receive(login)
			must(t, err)
		}
		must(t, w.send(req))
		resp, err := w.receive(req)
		if errors.Is(err, io.EOF) && lasts < patience {
			continue
		}
		must(t, err)
		if got := show(t, resp.(*kmsg.FetchResponse)); got != "t-0[0 0: []]" { // it would wait for 5 minutes
			t.Error(got)
		}
		return
	}
}

// A fetch with far more parts than records does not hold them while its client does not read.
func TestUnreadAnswerHoldsNoParts(t *testing.T) {
	var op fetchRead
	for i := range 5 * maxKeptFetch {
		op.parts = append(op.parts, fetchPartition{partitionRequest: partitionRequest{topic: topicRef{name: fmt.Sprint(i)}}})
	}
	op.parts[7].res.Size = 1
	op.shrink()
	if len(op.parts) != 1 || cap(op.parts) > maxKeptFetch || op.parts[0].res.Size != 1 {
		t.Errorf("%d parts, capacity %d", len(op.parts), cap(op.parts))
	}
}
