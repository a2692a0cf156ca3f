package network

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/protocol"
	"pgregory.net/rapid"
)

// juggler holds requests back, answers them in random order, and checks that no request starts too
// early.
type juggler struct {
	t    *rapid.T
	rnd  *rand.Rand
	mu   sync.Mutex
	held []*Request
	wake chan struct{}
}

func (j *juggler) handle(r *Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, other := range j.held {
		if r.Key != protocol.KeyProduce || other.Key != protocol.KeyProduce {
			j.t.Errorf("API %d started while API %d had no answer", r.Key, other.Key)
		}
	}
	j.held = append(j.held, r)
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *juggler) answer(n int) {
	for n > 0 {
		j.mu.Lock()
		if len(j.held) == 0 {
			j.mu.Unlock()
			<-j.wake
			continue
		}
		i := j.rnd.IntN(len(j.held))
		r := j.held[i]
		j.held = append(j.held[:i], j.held[i+1:]...)
		raw := j.rnd.IntN(2) == 0
		j.mu.Unlock()
		if raw {
			r.RespondRaw([][]byte{bytes.Clone(r.Body), {7}}, nil)
		} else {
			r.Respond(body(append(bytes.Clone(r.Body), 7)))
		}
		n--
	}
}

// Whatever order the answers are given in, a client gets them in the order of its requests, whole,
// and only Produce overlaps.
func TestI1ResponseOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom([]int16{protocol.KeyProduce, protocol.KeyProduce, protocol.KeyProduce, keyMetadata}), 1,
			60).Draw(rt, "kinds")
		size := rapid.SampledFrom([]int{0, 10, 900, 1500, 40_000}).Draw(rt, "size")
		j := &juggler{t: rt, rnd: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)), wake: make(chan struct{}, 1)}
		f := start(t, j.handle, func(o *Options) {
			o.ConnectionRequests = rapid.IntRange(1, 20).Draw(rt, "limit")
			o.ConnectionBytes = rapid.Int64Range(1, 100_000).Draw(rt, "bytes")
		})
		defer f.end(t)
		c := dial(t, f.tcp(t))
		defer c.Close()
		go j.answer(len(kinds))
		go func() {
			var all []byte
			for i, key := range kinds {
				all = append(all, frame(key, 3, int32(i), bytes.Repeat([]byte{byte(i)}, i%7*size/7))...)
			}
			_, _ = c.Write(all) // missing answers show a failure
		}()
		for i := range kinds {
			got := c.want(t, int32(i))
			if want := append(bytes.Repeat([]byte{byte(i)}, i%7*size/7), 7); !bytes.Equal(got, want) {
				rt.Fatalf("answer %d has %d bytes, want %d", i, len(got), len(want))
			}
		}
	})
}

// countingConn counts the system calls that would be made.
type countingConn struct {
	net.Conn
	reads, writes *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error)  { c.reads.Add(1); return c.Conn.Read(p) }
func (c countingConn) Write(p []byte) (int, error) { c.writes.Add(1); return c.Conn.Write(p) }

// A burst costs a few reads and writes, not one for each request.
func TestPipelinedRequestsShareSystemCalls(t *testing.T) {
	f := start(t, echo, nil)
	defer f.end(t)
	here, there := net.Pipe()
	var reads, writes atomic.Int64
	f.pipe.conns <- countingConn{there, &reads, &writes}
	c := &client{here}
	defer c.Close()
	const n = 200
	var all []byte
	for i := range int32(n) {
		all = append(all, frame(protocol.KeyProduce, 3, i, make([]byte, 50))...)
	}
	c.sendAsync(all)
	for i := range int32(n) {
		c.want(t, i)
	}
	if r, w := reads.Load(), writes.Load(); r > 20 || w > 20 {
		t.Errorf("%d requests took %d reads and %d writes", n, r, w)
	}
}

func TestLargeAnswersArriveWhole(t *testing.T) {
	pieces := [][]byte{bytes.Repeat([]byte{1}, 3), bytes.Repeat([]byte{2}, 2<<20), {}, bytes.Repeat([]byte{3}, writeChunk), {4}}
	released := make(chan struct{}, 2)
	f := start(t, func(r *Request) { r.RespondRaw(pieces, func() { released <- struct{}{} }) }, nil)
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	for i := range int32(2) {
		c.send(t, frame(keyMetadata, 1, i, nil))
		if got := c.want(t, i); !bytes.Equal(got, bytes.Join(pieces, nil)) {
			t.Fatalf("%d bytes differ", len(got))
		}
		<-released
	}
}

func TestLargeRequestsArriveWhole(t *testing.T) {
	f := start(t, echo, nil)
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	for i, size := range []int{0, readSmall - 14, readSmall, readBig - 14, readBig, pollRead, 3 << 20, 5} {
		sent := bytes.Repeat([]byte{byte(i + 1)}, size)
		c.sendAsync(frame(protocol.KeyProduce, 3, int32(i), sent))
		if got := c.want(t, int32(i)); !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes came back as %d others", size, len(got))
		}
	}
}

// sizeConn records how much space each read has.
type sizeConn struct {
	net.Conn
	mu    *sync.Mutex
	sizes *[]int
}

func (c sizeConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	*c.sizes = append(*c.sizes, len(p))
	c.mu.Unlock()
	return c.Conn.Read(p)
}

// The part of a frame that came with the one before it is copied to the frame's own memory at once.
// It is not moved within the buffer, which keeps all of its space for what follows: pipelined
// batches of 16 KiB are copied once and need the fewest reads.
func TestCutFrameLeavesTheBufferItsSpace(t *testing.T) {
	f := start(t, echo, nil)
	defer f.end(t)
	here, there := net.Pipe()
	var mu sync.Mutex
	var sizes []int
	f.pipe.conns <- sizeConn{there, &mu, &sizes}
	c := &client{here}
	defer c.Close()
	const n, size = 20, 20_000
	var all []byte
	for i := range int32(n) {
		all = append(all, frame(protocol.KeyProduce, 3, i, bytes.Repeat([]byte{byte(i)}, size))...)
	}
	c.sendAsync(all)
	for i := range int32(n) {
		if got := c.want(t, i); !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("frame %d came with other bytes", i)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for i, n := range sizes {
		if n > pollRead { // the small buffer comes first, and again after a second without a byte
			t.Errorf("read %d had space for %d bytes", i, n)
		}
	}
}
