package stream

import (
	"testing"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/replica"
)

// nothing is a Vector that computes checksums, as a connection does, and drops the frames.
type nothing struct {
	buf    [512]byte
	head   [frame.HeaderSize]byte
	frames int
	last   func(k frame.Kind, fields []byte)
}

func (v *nothing) Full() bool       { return false }
func (v *nothing) Begin(int) []byte { return v.buf[:0] }

func (v *nothing) End(k frame.Kind, flags uint8, fields []byte, held Releaser, body ...[]byte) {
	frame.PutHeader(v.head[:], k, frame.MinVersion, flags, fields, body...)
	if held != nil {
		held.Release()
	}
	v.frames++
	if v.last != nil {
		v.last(k, fields)
	}
}

// A frame with data, and its acknowledgement, allocate nothing at the leader but the list of parts
// that a read of storage returns.
func TestFramesDoNotAllocate(t *testing.T) {
	if bufpool.Invariants {
		t.Skip("pools do not reuse their buffers in this build")
	}
	w := newWorld(t, 1)
	defer w.close()
	w.assign(1, 1, 1)
	l := w.start(1)
	for range 10 {
		must(t, l.produce(0, replica.AcksLeader, 10, 100).wait(t))
	}
	o, b := l.subscriber()
	v := &nothing{}
	ack := frame.Ack{Slot: b.slot, LeaderEpoch: 1, Written: 100, Durable: 100}.AppendTo(nil)
	if n := testing.AllocsPerRun(1000, func() {
		b.next, b.sent = 0, b.sent[:0]
		o.ready.push(b)
		o.Fill(v)
		must(t, o.acknowledge(ack))
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
	if v.frames < 1000 {
		t.Errorf("%d frames", v.frames)
	}
}

// subscriber subscribes broker 2 without a connection.
func (n *node) subscriber() (*outgoing, *sub) {
	x := newWire(2, n.id, 0, 0)
	o := &outgoing{s: n.streams, conn: x.ends[1], cold: make(chan struct{}, 1), subs: map[uint32]*sub{}, byPart: map[*part]*sub{},
		cuts: map[uint32]cut{}, cutOf: map[*part]uint32{}}
	t := n.streams.part(n.partition(0))
	b := &sub{out: o, part: t, slot: 1, epoch: 1, high: -1}
	o.subs[1], o.byPart[t] = b, b
	t.addSub(b)
	return o, b
}

// What a leader spends on a follower for a batch of 64 records of 256 bytes: the read, the frame
// with its checksum, and the acknowledgement. The socket comes on top.
func BenchmarkPush(b *testing.B) {
	w := newWorld(b, 1)
	defer w.close()
	w.assign(1, 1, 1)
	l := w.start(1)
	must(b, l.produce(0, replica.AcksLeader, 64, 256).wait(b))
	o, s := l.subscriber()
	v := &nothing{}
	ack := frame.Ack{Slot: s.slot, LeaderEpoch: 1, Written: 64, Durable: 64}.AppendTo(nil)
	for b.Loop() {
		s.next, s.sent = 0, s.sent[:0]
		o.ready.push(s)
		o.Fill(v)
		must(b, o.acknowledge(ack))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/record")
}
