package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"testing"
	"testing/quick"
)

// kinds are all kinds of frames: two capital letters.
func kinds() (all []Kind) {
	for k := Kind('A'<<8 | 'A'); k <= 'Z'<<8|'Z'; k++ {
		if k&0xff >= 'A' && k&0xff <= 'Z' && k.limit() >= 0 {
			all = append(all, k)
		}
	}
	return all
}

// The bytes of a frame are fixed: another release of the broker reads them.
func TestTheBytesOfAFrame(t *testing.T) {
	ack := Ack{Slot: 7, LeaderEpoch: 3, Written: 0x0102030405060708, Durable: 5}.AppendTo(nil)
	head := make([]byte, HeaderSize)
	PutHeader(head, AK, 1, 0, ack)
	want := []byte{0x41, 0x4b, 1, 0, 0, 0, 0, 24}
	sum := crc32.Checksum(append(bytes.Clone(want), ack...), crc32.MakeTable(crc32.Castagnoli))
	if want = binary.BigEndian.AppendUint32(want, sum); !bytes.Equal(head, want) {
		t.Errorf("header % x, want % x", head, want)
	}
	wantAck := []byte{0, 0, 0, 7, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 5}
	if !bytes.Equal(ack, wantAck) {
		t.Errorf("payload % x, want % x", ack, wantAck)
	}
}

func TestChecksumCoversHeaderAndPayload(t *testing.T) {
	payload := High{Slot: 1, LeaderEpoch: 2, High: 3, LogStart: 0}.AppendTo(nil)
	p := make([]byte, HeaderSize, HeaderSize+len(payload))
	PutHeader(p, HW, 1, 0, payload[:5], payload[5:])
	p = append(p, payload...)
	for i := range len(p) * 8 {
		damaged := bytes.Clone(p)
		damaged[i/8] ^= 1 << (i % 8)
		h, err := ParseHeader(damaged, 1)
		if err == nil && int(h.Length) == len(payload) {
			err = h.Check(damaged, damaged[HeaderSize:])
		}
		if err == nil && int(h.Length) == len(payload) {
			t.Fatalf("bit %d is flipped and the frame passes", i)
		}
	}
	h, err := ParseHeader(p, 1)
	if err = errors.Join(err, h.Check(p, p[HeaderSize:])); err != nil {
		t.Error(err)
	}
}

// A header is refused by its length alone, before memory is allocated for it.
func TestHeaderIsCheckedAgainstItsKind(t *testing.T) {
	header := func(k Kind, version uint8, n uint32) error {
		p := make([]byte, HeaderSize)
		binary.BigEndian.PutUint16(p, uint16(k))
		p[2] = version
		binary.BigEndian.PutUint32(p[4:], n)
		_, err := ParseHeader(p, 1)
		return err
	}
	for _, k := range kinds() {
		whole := k.limit()
		if size := k.EntrySize(); size > 0 {
			whole -= whole % size
			if header(k, 1, 0) == nil || header(k, 1, uint32(size+1)) == nil {
				t.Errorf("%s: a list without an entry, or with a part of one, passes", k)
			}
			if k.MaxEntries() != whole/size || k.MaxEntries() < 10_000 {
				t.Errorf("%s holds %d entries", k, k.MaxEntries())
			}
		}
		if err := header(k, 1, uint32(whole)); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		for _, n := range []uint32{uint32(k.limit()) + 1, 1 << 31, 0xffffffff} {
			if !errors.Is(header(k, 1, n), ErrMalformed) {
				t.Errorf("%s of %d bytes passes", k, n)
			}
		}
		if !errors.Is(header(k, 2, uint32(whole)), ErrMalformed) {
			t.Errorf("%s of another version passes", k)
		}
		if len(k.String()) != 2 {
			t.Errorf("%s: name", k)
		}
	}
	if !errors.Is(header(0, 1, 0), ErrMalformed) || Kind(0).String() != "0x0000" {
		t.Error("kind 0 passes")
	}
}

// reparse encodes an entry that was parsed, and checks that it has the same bytes.
func reparse(t *testing.T, p []byte, size int, v interface{ AppendTo([]byte) []byte }, err error) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, ErrMalformed) {
			t.Fatalf("%T: %v", v, err)
		}
		return
	}
	if got := v.AppendTo(nil); !bytes.Equal(got, p[:size]) {
		t.Fatalf("%T: % x was parsed and is now % x", v, p[:size], got)
	}
}

// FuzzPayloads: every payload is refused, or is the encoding of the value that it was read as.
func FuzzPayloads(f *testing.F) {
	f.Add(make([]byte, 200), uint8(0))
	f.Add((&Subscription{Slot: 1, LastEpoch: 4, LogEnd: 9, Written: 8, Durable: 7}).AppendTo(nil), uint8(0))
	f.Add(Verdict{Slot: 1, Decision: Diverged, Epoch: 3, Offset: 100}.AppendTo(nil), uint8(0))
	f.Add(append((&Data{Slot: 3, PrevEnd: 5, NextEnd: 6}).AppendTo(nil), 1, 2, 3), uint8(0))
	f.Add(append(Producers{Slot: 3, Offset: 5}.AppendTo(nil), 1, 2, 3), uint8(0))
	f.Add(append(Piece{ID: 4, Offset: 0, Total: 5, Method: 3}.AppendTo(nil), 1, 2), FlagMore)
	f.Add(append(Piece{ID: 4, Offset: 2, Total: 0xffffffff}.AppendTo(nil), 1, 2, 3), FlagNext)
	f.Fuzz(func(t *testing.T, p []byte, flags uint8) {
		s, err := ParseSubscription(p)
		reparse(t, p, SubscriptionSize, &s, err)
		v, err := ParseVerdict(p)
		reparse(t, p, VerdictSize, v, err)
		d, batches, err := ParseData(p)
		reparse(t, p, DataSize, &d, err)
		if err == nil && len(batches) != len(p)-DataSize {
			t.Fatal("bytes are lost")
		}
		h, err := ParseHigh(p)
		reparse(t, p, HighSize, h, err)
		y, err := ParseSync(p)
		reparse(t, p, SyncSize, y, err)
		a, err := ParseAck(p)
		reparse(t, p, AckSize, a, err)
		o, err := ParseOffline(p)
		reparse(t, p, OfflineSize, o, err)
		e, err := ParseEnd(p)
		reparse(t, p, EndSize, e, err)
		l, err := ParseStart(p)
		reparse(t, p, StartSize, l, err)
		r, state, err := ParseProducers(p)
		reparse(t, p, ProducersSize, r, err)
		if err == nil && len(state) != len(p)-ProducersSize {
			t.Fatal("bytes of a state are lost")
		}
		m, body, err := ParsePiece(p, flags)
		reparse(t, p, PieceSize, m, err)
		if err == nil && (uint64(m.Offset)+uint64(len(body)) > uint64(m.Total) || m.Total > MaxMessage) {
			t.Fatalf("piece %+v of %d bytes exceeds its message", m, len(body))
		}
		if len(p) >= HeaderSize {
			h, err := ParseHeader(p, 1)
			if err == nil && int(h.Length) > MaxData+DataSize {
				t.Fatalf("header %+v", h)
			}
		}
	})
}

// All fields of all entries survive.
func TestEntriesKeepTheirFields(t *testing.T) {
	same := func(got, want any, err error) bool { return err == nil && reflect.DeepEqual(got, want) }
	if err := quick.Check(func(s Subscription, d Data, a Ack, h High, v Verdict, l Start, n, m uint32) bool {
		s.Partition &= 0x7fffffff
		s.LeaderEpoch, s.LastEpoch = s.LeaderEpoch&0x7fffffff, s.LastEpoch&0x7fffffff-1
		s.LogStart, s.Durable = int64(n), int64(n)
		s.Written = s.Durable + int64(m)
		s.LogEnd = s.Written + 1
		d.LeaderEpoch, d.PrevEnd, d.High, d.LogStart = d.LeaderEpoch&0x7fffffff, int64(n), int64(m), 7
		d.NextEnd, d.GapEpoch = d.PrevEnd+int64(m)+1, d.LeaderEpoch/2
		a.LeaderEpoch, a.Durable, a.Written = d.LeaderEpoch, int64(n), int64(n)+int64(m)
		h.LeaderEpoch, h.High, h.LogStart = d.LeaderEpoch, int64(m), int64(n)
		v.Decision, v.Epoch, v.Offset, l.LogStart = Accepted+Decision(n)%Whole, d.LeaderEpoch, int64(n), int64(m)
		s1, e1 := ParseSubscription(s.AppendTo(nil))
		d1, _, e2 := ParseData(d.AppendTo(nil))
		a1, e3 := ParseAck(a.AppendTo(nil))
		h1, e4 := ParseHigh(h.AppendTo(nil))
		v1, e5 := ParseVerdict(v.AppendTo(nil))
		l1, e6 := ParseStart(l.AppendTo(nil))
		o := Offline{Slot: n, Cause: DiskFailed + Cause(m%4)}
		o1, e7 := ParseOffline(o.AppendTo(nil))
		u := End{Slot: n, Cause: DiskFailed + Cause(m%8)}
		u1, e8 := ParseEnd(u.AppendTo(nil))
		return same(s1, s, e1) && same(d1, d, e2) && same(a1, a, e3) && same(h1, h, e4) && same(v1, v, e5) &&
			same(l1, l, e6) && same(o1, o, e7) && same(u1, u, e8)
	}, nil); err != nil {
		t.Error(err)
	}
}
