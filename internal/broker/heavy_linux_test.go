package broker

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/record"
)

// calls counts how often requests come to the handler.
type calls struct {
	network.Handler
	mu sync.Mutex
	of map[int32]int // by correlation id
}

func (c *calls) Handle(r *network.Request) {
	c.mu.Lock()
	if r.Key == protocol.KeyProduce {
		c.of[r.CorrelationID]++
	}
	c.mu.Unlock()
	c.Handler.Handle(r)
}

// most returns how often the request with the most calls came.
func (c *calls) most() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.of {
		n = max(n, times)
	}
	clear(c.of)
	return n
}

// Batches that are expensive to decompress, or must be compressed, are handed over to the
// connection's reader; small ones stay.
func TestAPollerValidatesNoHeavyBatch(t *testing.T) {
	c := &calls{of: map[int32]int{}}
	n := newNode(t, func(o *nodeOptions) {
		o.network = func(opt *network.Options) { c.Handler, opt.Handler = opt.Handler, c }
	})
	keeps, packs := n.topic(t, "keeps", 1), n.topic(t, "packs", 1, "compression.type", "zstd")
	zeros := strings.Repeat("\x00", 1<<20)
	with := func(codec record.Codec, value string) []byte {
		return batchOf(t, record.BatchOptions{Compression: compressed(t, codec)}, time.Now().UnixMilli(), value)
	}
	for name, x := range map[string]struct {
		topic   [16]byte
		batch   []byte
		times   int
		refused bool
	}{
		"1 MiB in some bytes of zstd":  {keeps, with(record.Zstd, zeros), 2, false},
		"1 MiB in a kilobyte of gzip":  {keeps, with(record.Gzip, zeros), 2, false},
		"1 MiB in 4 kilobytes of lz4":  {keeps, with(record.Lz4, zeros), 2, false},
		"100 KiB of snappy":            {keeps, with(record.Snappy, zeros[:100_000]), 1, false},
		"a word":                       {keeps, plain(t, "word"), 1, false},
		"a word that is to be packed":  {packs, plain(t, "word"), 2, false},
		"a word that is packed":        {packs, with(record.Zstd, "word"), 1, false},
		"a topic that there is not":    {[16]byte{1}, with(record.Zstd, zeros), 1, true},
		"more in all than is accepted": {keeps, with(record.Zstd, strings.Repeat(zeros, 110)), 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := n.dial(t)
			most := 0
			// The reader handles requests that arrive before it has offered its connection to a
			// poller.
			for end := time.Now().Add(patience); most < x.times && time.Now().Before(end); most = max(most, c.most()) {
				produced(t, w, 13, produceRequest("", keeps, -1, plain(t, "small")))
				c.most()
				time.Sleep(time.Millisecond) // most probably it has by now
				p := produced(t, w, 13, produceRequest("", x.topic, -1, x.batch))
				if (p.ErrorCode != 0) != x.refused {
					t.Fatalf("%+v", p)
				}
			}
			if most != x.times {
				t.Errorf("the handler was called %d times, want %d", most, x.times)
			}
		})
	}
}

// As many heavy batches are validated at a time as there are places, one for every two processors,
// on however many connections they arrive. Small ones do not wait for them.
func TestHeavyBatchesTakePlaces(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	fill(t, n.Handler.batches)
	heavy := batchOf(t, record.BatchOptions{Compression: compressed(t, record.Zstd)}, time.Now().UnixMilli(), strings.Repeat("\x00", 1<<20))
	req := produceRequest("", id, -1, heavy)
	req.SetVersion(13)
	heavies := []*wire{n.dial(t), n.dial(t)}
	for _, w := range heavies {
		must(t, w.send(req))
	}
	const small = 100
	for w, i := n.dial(t), 0; i < small; i++ {
		if p := produced(t, w, 13, produceRequest("", id, -1, plain(t, "small"))); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	if got := n.highWatermark(t, id); got != small {
		t.Errorf("%d records are stored, %d of them small: a heavy batch did not wait for its turn", got, small)
	}
	empty(n.Handler.batches)
	for _, w := range heavies {
		resp, err := w.receive(req)
		must(t, err)
		if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Errorf("error %d", code)
		}
	}
}
