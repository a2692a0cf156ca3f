package broker

import (
	"io"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
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

// The cost of a whole Produce, from the socket to the answer, including storage. The file system is
// in memory, so allocations dominate.
func BenchmarkProduce(b *testing.B) {
	for name, window := range map[string]int{"one": 1, "pipelined": 64} {
		b.Run(name, func(b *testing.B) {
			n := newNode(b)
			id := n.topic(b, "t", 1)
			w := n.dial(b)
			req := produceRequest("", id, -1, plain(b, "0123456789"))
			req.SetVersion(13)
			must(b, w.send(req))
			answer, err := w.body()
			must(b, err)
			w.correlation++
			roundTrip(b, w, w.format.AppendRequest(nil, req, w.correlation), len(answer)+8, window)
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	n := newNode(b)
	id := n.topic(b, "t", 1)
	n.put(b, "t", 10, "0123456789")
	w := n.dial(b)
	req := fetchRequest(0, named("", id))
	req.SetVersion(13)
	must(b, w.send(req))
	answer, err := w.body()
	must(b, err)
	if len(answer) < 500 {
		b.Fatal("nothing is there")
	}
	w.correlation++
	roundTrip(b, w, w.format.AppendRequest(nil, req, w.correlation), len(answer)+8, 1)
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
