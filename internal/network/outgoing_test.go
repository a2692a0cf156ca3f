package network

import (
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// Each connection keeps to its bound, but all together would fill the memory. Connections that do
// not read are closed before others are stopped for long; one that reads stays open.
func TestUnreadAnswersOfAllConnectionsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		bound  int64
		closed bool
	}{"over the bound": {1 << 20, true}, "under it": {100 << 20, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, func(r *Request) {
					if r.Key == protocol.KeyProduce {
						echo(r)
						return
					}
					r.Respond(body(make([]byte, 100_000)))
				}, func(o *Options) { o.AnswerBytes, o.WriteTimeout = c.bound, time.Hour })
				defer f.end(t)
				began := time.Now()
				const n = 30
				for i := range int32(n) {
					c := f.pipe.dial()
					t.Cleanup(func() { c.Close() })
					c.sendAsync(slices.Repeat(frame(keyMetadata, 3, i, nil), 5))
				}
				synctest.Wait()
				reads := f.pipe.dial()
				defer reads.Close()
				for i := range int32(20) {
					reads.sendAsync(frame(protocol.KeyProduce, 3, i, nil))
					reads.want(t, i)
					reads.sendAsync(frame(keyMetadata, 3, i, nil))
					reads.want(t, i)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("who reads was held up for %v", took)
				}
				if s := f.Stats(); c.closed && s.Unwritten > c.bound+(n+1)*100_100 {
					t.Errorf("%d bytes are unwritten", s.Unwritten)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				s := f.Stats()
				if closed := s.Connections < n; closed != c.closed || closed && s.Unwritten > c.bound {
					t.Errorf("after 10 s: %+v", s)
				}
				reads.sendAsync(frame(keyMetadata, 3, 99, nil))
				reads.want(t, 99)
			})
		})
	}
}

// Beyond the bound there is one answer of each kind, however many clients ask at once and do not
// read, and a handler that waits for a disk does not delay those that do not.
func TestAnswersOfReservedSizeAreAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, size, n = 1 << 20, 400_000, 60
		disk := make(chan struct{})
		f := start(t, func(r *Request) {
			how := AtOnce
			if r.CorrelationID < 0 {
				how = Waiting
			}
			r.ReserveAnswer(bound, how)
			if how == Waiting {
				<-disk
			}
			r.Respond(body(make([]byte, size)))
		}, func(o *Options) { o.AnswerBytes, o.WriteTimeout = bound, time.Hour })
		defer f.end(t)
		ask := func(correlation int32) {
			c := f.pipe.dial()
			t.Cleanup(func() { c.Close() })
			c.sendAsync(frame(keyMetadata, 3, correlation, nil))
		}
		for i := range int32(n) {
			ask(-i - 1)
		}
		synctest.Wait()
		if s := f.Stats(); s.Unwritten != 0 {
			t.Errorf("%d bytes are unwritten", s.Unwritten)
		}
		for i := range int32(n) {
			ask(i)
		}
		synctest.Wait()
		if s := f.Stats(); s.Unwritten <= bound || s.Unwritten > bound+size+countStep {
			t.Errorf("%d bytes are unwritten, %d the bound", s.Unwritten, bound)
		}
		close(disk)
		synctest.Wait()
		if s := f.Stats(); s.Unwritten > bound+2*(size+countStep) {
			t.Errorf("%d bytes are unwritten, %d the bound", s.Unwritten, bound)
		}
		reads := f.pipe.dial()
		defer reads.Close()
		reads.sendAsync(frame(keyMetadata, 3, 99, nil))
		reads.want(t, 99) // those that don't read are closed by then
	})
}

// An answer that fits is built although one that does not waits for a handler whose disk hangs.
func TestAnAnswerThatFitsWaitsForNoLargerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 1 << 20
		hangs, large, fits := int32(1), int32(2), int32(3)
		disk := make(chan struct{})
		var last atomic.Int32 // that got its memory
		f := start(t, func(r *Request) {
			n := int64(bound / 10)
			if r.CorrelationID <= large {
				n = 4 * bound
			}
			r.ReserveAnswer(n, Waiting)
			last.Store(r.CorrelationID)
			if r.CorrelationID == hangs {
				<-disk
			}
			r.Respond(body(nil))
		}, func(o *Options) { o.AnswerBytes = bound })
		defer f.end(t)
		defer close(disk)
		for _, x := range [...]struct{ id, last int32 }{{hangs, hangs}, {large, hangs}, {fits, fits}} {
			c := f.pipe.dial()
			t.Cleanup(func() { c.Close() })
			c.sendAsync(frame(keyMetadata, 3, x.id, nil))
			synctest.Wait()
			if got := last.Load(); got != x.last {
				t.Errorf("request %d was the last that got memory when %d had come", got, x.id)
			}
		}
	})
}

// Clients that end their connections while requests wait for memory do not have all their answers
// built at once.
func TestAnswersOfEndedConnectionsAreNotBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, n = 1 << 20, 20
		disk := make(chan struct{})
		var built atomic.Int32
		f := start(t, func(r *Request) {
			if r.CorrelationID == 0 {
				r.Respond(body(make([]byte, 1000)))
				return
			}
			if !r.ReserveAnswer(4*bound, Waiting) {
				r.Abort(io.EOF)
				return
			}
			built.Add(1)
			<-disk
			r.Respond(body(nil))
		}, func(o *Options) { o.AnswerBytes, o.WriteTimeout = bound, time.Hour })
		defer f.end(t)
		defer close(disk)
		for range n {
			c := f.pipe.dial()
			c.sendAsync(frame(keyMetadata, 3, 0, nil))
			c.sendAsync(frame(keyMetadata, 3, 1, nil))
			synctest.Wait()
			t.Cleanup(func() { c.Close() })
		}
		if got := built.Load(); got != 1 {
			t.Errorf("%d answers are built", got)
		}
		f.mu.Lock()
		all := f.snapshot()
		f.mu.Unlock()
		for c := range all {
			c.mu.Lock()
			c.kill(ClosedSlowReader)
			c.mu.Unlock()
		}
		synctest.Wait()
		if got := built.Load(); got != 1 {
			t.Errorf("%d answers are built when their clients are gone", got)
		}
	})
}

// If handlers build large answers one after the other, and each waits for the bound first, at most
// one of them exceeds it, however many clients do not read.
func TestLargeAnswersWaitForTheirBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, size, n = 1 << 20, 100_000, 60
		turn := make(chan struct{}, 1)
		f := start(t, func(r *Request) {
			if !r.MayBlock() {
				t.Error("a poller handles it")
			}
			turn <- struct{}{}
			r.AwaitAnswerBudget()
			r.Respond(body(make([]byte, size)))
			<-turn
		}, func(o *Options) { o.AnswerBytes, o.WriteTimeout = bound, time.Hour })
		defer f.end(t)
		for i := range int32(n) {
			c := f.pipe.dial()
			t.Cleanup(func() { c.Close() })
			c.sendAsync(frame(keyMetadata, 3, i, nil))
		}
		synctest.Wait()
		if s := f.Stats(); s.Unwritten <= bound || s.Unwritten > bound+size+countStep {
			t.Errorf("%d bytes are unwritten, %d the bound", s.Unwritten, bound)
		}
		reads := f.pipe.dial()
		defer reads.Close()
		reads.sendAsync(frame(keyMetadata, 3, 99, nil))
		reads.want(t, 99) // those that don't read are closed by then
		synctest.Wait()
		if s := f.Stats(); s.Connections > bound/size+2 {
			t.Errorf("%d connections are left", s.Connections)
		}
	})
}

// growing is an answer of so many bytes that is encoded in small pieces.
type growing int

func (growing) Key() int16        { return 0 }
func (growing) GetVersion() int16 { return 0 }
func (growing) IsFlexible() bool  { return false }
func (g growing) AppendTo(dst []byte) []byte {
	for range int(g) / 100 {
		dst = append(dst, make([]byte, 100)...)
	}
	return dst
}

// A large answer takes its size of memory apart from the heap, and not what a slice has grown
// through on the way to it.
func TestALargeAnswerLeavesLittleGarbage(t *testing.T) {
	const size, n = 1_000_000, 50
	f := start(t, func(r *Request) { r.Respond(growing(size)) }, nil)
	defer f.end(t)
	c := f.pipe.dial()
	defer c.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range int32(n) {
		c.sendAsync(frame(keyMetadata, 3, i, nil))
		var length [4]byte
		_, err := io.ReadFull(c, length[:])
		must(t, err)
		_, err = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(length[:])))
		must(t, err)
	}
	runtime.ReadMemStats(&after)
	most := uint64(size / 4)
	if runtime.GOOS != "linux" { // it is on the heap
		most = 6 * size
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > most {
		t.Errorf("an answer of %d bytes allocates %d", size, each)
	}
}
