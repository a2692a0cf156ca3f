package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// Each test of this file covers one entry of the list of faults and is named after it.

// For every API, in its oldest and newest version: a request that is cut at every byte, and one
// with each byte changed, is answered or closes its connection. The broker continues to serve
// others.
func TestFault11BodiesThatAreCutOrLie(t *testing.T) {
	for _, a := range apis() {
		for _, version := range slices.Compact([]int16{a.Min, a.Max}) {
			t.Run(fmt.Sprintf("%s/%d", a.Name(), version), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { lies(t, a.Key, version) })
			})
		}
	}
}

func lies(t *testing.T, key, version int16) {
	n := newNode(t, func(o *nodeOptions) { o.pipe = true }, inCluster(&fakeCluster{}))
	id := n.topic(t, "t", 1)
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fillRequest(req, id)
	if p, ok := req.(*kmsg.ProduceRequest); ok {
		p.Topics[0].Partitions[0].Records = plain(t, "a")
	}
	whole := kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)
	const header = 4 + 2 + 2 + 4 + 2
	values := race.Some(3, 1) // to set each byte to
	try := func(frame []byte) {
		w := n.dial(t)
		defer w.Close()
		must(t, w.SetDeadline(time.Now().Add(time.Hour))) // a fetch may wait for 5 minutes
		w.correlation = 7
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		go func() { _, _ = w.Write(frame) }() // it may be closed before it has read everything
		if _, err := w.body(); err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("%x: %v", frame, err)
		}
	}
	for cut := header; cut < len(whole); cut++ {
		try(slices.Clone(whole[:cut]))
	}
	for at := header; at < len(whole); at++ {
		for _, b := range []byte{0xff, 0x7f, whole[at] + 1}[:values] {
			frame := slices.Clone(whole)
			frame[at] = b
			try(frame)
		}
	}
	w := n.dial(t)
	defer w.Close()
	if v := ask[*kmsg.ApiVersionsResponse](t, w, 3, apiVersionsRequest("test", "1")); v.ErrorCode != 0 {
		t.Errorf("%+v", v)
	}
	if s := n.server.Load().Stats(); s.Produce.Used+s.Other.Used != 0 {
		t.Errorf("bytes are left over: %+v", s)
	}
}

// The connection of an idempotent producer breaks while its requests are in flight. Requests that
// had arrived whole may be stored; the retries on another connection all succeed, and each record
// is there once.
func TestFault12ResetInTheMiddleOfAProduce(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	const batches = 5
	request := func(i int) *kmsg.ProduceRequest {
		b := batchOf(t, record.BatchOptions{Producer: &record.Producer{ID: 5, Sequence: int32(i)}}, 1000, fmt.Sprint(i))
		req := produceRequest("", id, -1, b)
		req.SetVersion(13)
		return req
	}
	var all []byte
	for i := range batches {
		all = append(all, kmsg.NewRequestFormatter().AppendRequest(nil, request(i), int32(i))...)
	}
	for cut := 0; cut <= len(all); cut += 17 {
		w := n.dial(t)
		_, err := w.Write(all[:cut])
		must(t, err)
		must(t, w.Close())
	}
	w := n.dial(t)
	for i := range batches {
		if p := produced(t, w, 13, request(i)); p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Fatalf("retry of batch %d: %+v", i, p)
		}
	}
	if there := n.readAll(t, id); there != batches {
		t.Errorf("%d records, want %d", there, batches)
	}
}

// Invalid batches, as a hostile producer may send them, are answered with the protocol's error, and
// none is stored.
func TestFault14BatchesThatLie(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	put := func(at int, v ...byte) func([]byte) {
		return func(b []byte) { copy(b[at:], v) }
	}
	minus := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00}
	for _, c := range []struct {
		name   string
		change func([]byte) // of the header; the checksum is recomputed
		want   *kerr.Error
	}{
		{"older format", put(16, 1), kerr.InvalidRecord},
		{"unknown format", put(16, 9), kerr.CorruptMessage},
		{"control batch", put(21, 0, 0x20), kerr.InvalidRecord},
		{"unknown codec", put(21, 0, 7), kerr.UnsupportedCompressionType},
		{"claims to be compressed", put(21, 0, 1), kerr.InvalidRecord},
		{"last offset delta", put(23, 0, 0, 0, 9), kerr.InvalidRecord},
		{"negative last offset delta", put(23, minus...), kerr.InvalidRecord},
		{"negative timestamps", put(27, minus...), kerr.InvalidTimestamp},
		{"record count", put(57, 0, 0, 0, 9), kerr.InvalidRecord},
		{"record count of 2^31-1", put(57, 0x7f, 0xff, 0xff, 0xff), kerr.InvalidRecord},
		{"negative record count", put(57, 0xff, 0xff, 0xff, 0xff), kerr.InvalidRecord},
	} {
		b := batchOf(t, record.BatchOptions{}, 1000, "a", "b")
		c.change(b)
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		p := produced(t, w, 13, produceRequest("", id, -1, b))
		if p.ErrorCode != c.want.Code || p.BaseOffset != -1 || p.ErrorMessage == nil {
			t.Errorf("%s: %v at %d, want %v", c.name, kerr.ErrorForCode(p.ErrorCode), p.BaseOffset, c.want)
		}
	}
	const batchBytes, inflated = 256 << 10, 32 << 20 // a batch may inflate to 100 times the topic's limit
	bombs := n.topic(t, "bombs", 1, "max.message.bytes", fmt.Sprint(batchBytes))
	for _, codec := range []record.Codec{record.Gzip, record.Zstd} {
		bomb := batchOf(t, record.BatchOptions{Compression: compressed(t, codec)}, 1000, string(make([]byte, inflated)))
		if len(bomb) > batchBytes {
			t.Fatalf("%v makes a batch of %d bytes, which is refused without being inflated", codec, len(bomb))
		}
		p := produced(t, w, 13, produceRequest("", bombs, -1, bomb))
		if p.ErrorCode != kerr.MessageTooLarge.Code || p.ErrorMessage == nil {
			t.Errorf("%d bytes of %v that inflate without bound: %v", len(bomb), codec, kerr.ErrorForCode(p.ErrorCode))
		}
	}
	if p := produced(t, w, 13, produceRequest("", id, -1, plain(t, "0"))); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("an honest batch after them: %+v", p)
	}
}

// Clients send a thousand requests without reading an answer, and disconnect. Every request ends
// with success, error, timeout or nothing; what they held is released, and no goroutine remains
// (TestMain checks).
func TestFault16AThousandRequestsAndGone(t *testing.T) {
	const clients, requests = 8, 1000
	n := newNode(t, func(o *nodeOptions) {
		o.network = func(n *network.Options) { n.ProduceBytes, n.ConnectionBytes, n.ConnectionRequests = 20_000, 10_000, 50 }
	})
	id := n.topic(t, "t", 2)
	n.follow(t, id) // acks=all waits for a follower that never acknowledges
	var wg sync.WaitGroup
	for c := range clients {
		w := n.dial(t)
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(c), 1))
			var frames []byte
			for i := range requests {
				var req kmsg.Request
				switch rnd.IntN(6) {
				case 0:
					f := fetchRequest(1<<40, named("", id))
					f.MaxWaitMillis = 20
					req = f
				case 1:
					req = produceRequest("", [16]byte{9}, 1, plain(t, "nowhere"))
				default:
					p := produceRequest("", id, []int16{-1, 0, 1}[rnd.IntN(3)], plain(t, "x"))
					p.TimeoutMillis, p.Topics[0].Partitions[0].Partition = 5, int32(rnd.IntN(2))
					req = p
				}
				req.SetVersion(13)
				frames = append(frames, kmsg.NewRequestFormatter().AppendRequest(nil, req, int32(i))...)
			}
			sent := make(chan struct{})
			go func() {
				_, _ = w.Write(frames) // the connection is closed meanwhile
				close(sent)
			}()
			// Some disconnect after the first answers, some when the broker reads no more.
			for range rnd.IntN(30) {
				var size [4]byte
				if _, err := io.ReadFull(w, size[:]); err != nil {
					break
				}
				_, _ = io.CopyN(io.Discard, w, int64(binary.BigEndian.Uint32(size[:])))
			}
			_ = w.Close()
			<-sent
		})
	}
	wg.Wait()
	server := n.server.Load()
	for s := server.Stats(); s.Connections != 0 || s.Orphans != 0; s = server.Stats() {
		time.Sleep(time.Millisecond) // the test's timeout bounds it
	}
	if s := server.Stats(); s.Produce.Used != 0 || s.Other.Used != 0 || s.Produce.Waiting != 0 {
		t.Errorf("left over: %+v", s)
	}
	if r := n.absent(); r != 0 {
		t.Errorf("%d connections that are gone are waited for", r)
	}
	if p := produced(t, n.dial(t), 13, produceRequest("", id, 1, plain(t, "x"))); p.ErrorCode != 0 {
		t.Errorf("afterwards: %+v", p)
	}
}
