package broker

import (
	"io"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/bufpool"
)

// roundTrip sends a frame and reads an answer of size bytes, n times, with up to window requests in
// flight.
func roundTrip(b *testing.B, w *wire, frame []byte, answer, window int) {
	b.Helper()
	in := make([]byte, answer)
	b.ReportAllocs()
	b.ResetTimer()
	for sent, got := 0, 0; got < b.N; got++ {
		for ; sent < b.N && sent < got+window; sent++ {
			if _, err := w.Write(frame); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := io.ReadFull(w, in); err != nil {
			b.Fatal(err)
		}
	}
}

// repeatable sends a request of version 13 once, and returns its frame to send again, with the size
// of the answer in bytes.
func repeatable(t testing.TB, w *wire, req kmsg.Request) (frame []byte, answer int) {
	t.Helper()
	req.SetVersion(13)
	must(t, w.send(req))
	body, err := w.body()
	must(t, err)
	w.correlation++
	return w.format.AppendRequest(nil, req, w.correlation), len(body) + 8
}

//	A whole Produce, from the socket to the answer, allocates 4 times, once of them for the file
//
// system in memory; a Fetch of one batch allocates 7 times. The bounds leave one for other
// goroutines.
func TestRequestsHardlyAllocate(t *testing.T) {
	if bufpool.Invariants {
		t.Skip("checks of ownership allocate")
	}
	n := newNode(t)
	written, read := n.topic(t, "t", 1), n.topic(t, "u", 1)
	n.put(t, "u", 10, "0123456789")
	w := n.dial(t)
	for _, c := range []struct {
		req  kmsg.Request
		most float64
	}{{produceRequest("", written, -1, plain(t, "0123456789")), 3}, {fetchRequest(0, named("", read)), 8}} {
		frame, size := repeatable(t, w, c.req)
		answer := make([]byte, size)
		// Another goroutine may allocate in one of the runs, but not in all.
		got := c.most + 1
		for try := 0; try < 5 && got > c.most; try++ {
			got = min(got, testing.AllocsPerRun(1000, func() {
				_, err := w.Write(frame)
				must(t, err)
				_, err = io.ReadFull(w, answer)
				must(t, err)
			}))
		}
		if got > c.most {
			t.Errorf("a %T allocates %v times, more than %v", c.req, got, c.most)
		}
	}
}

// The cost of a whole Produce, from the socket to the answer, including storage. The file system is
// in memory, so allocations dominate.
func BenchmarkProduce(b *testing.B) {
	for name, window := range map[string]int{"one": 1, "pipelined": 64} {
		b.Run(name, func(b *testing.B) {
			n := newNode(b)
			w := n.dial(b)
			frame, answer := repeatable(b, w, produceRequest("", n.topic(b, "t", 1), -1, plain(b, "0123456789")))
			roundTrip(b, w, frame, answer, window)
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	n := newNode(b)
	id := n.topic(b, "t", 1)
	n.put(b, "t", 10, "0123456789")
	w, req := n.dial(b), fetchRequest(0, named("", id))
	frame, answer := repeatable(b, w, req)
	if answer < 500 {
		b.Fatal("nothing is there")
	}
	roundTrip(b, w, frame, answer, 1)
	b.StopTimer()
	_ = ask[*kmsg.FetchResponse](b, n.dial(b), 13, req)
}

// A consumer at the end of a partition: its fetch waits, and a record wakes it.
func BenchmarkFetchThatWaits(b *testing.B) {
	n := newNode(b)
	id := n.topic(b, "t", 1)
	consumer, producer := n.dial(b), n.dial(b)
	req := waiting(0, 1, named("", id))
	req.SetVersion(13)
	record := produceRequest("", id, 1, plain(b, "0123456789"))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		req.Topics[0].Partitions[0].FetchOffset = int64(i)
		must(b, consumer.send(req))
		for n.park.Waiting() == 0 {
			runtime.Gosched()
		}
		produced(b, producer, 13, record)
		if _, err := consumer.body(); err != nil {
			b.Fatal(err)
		}
	}
}
