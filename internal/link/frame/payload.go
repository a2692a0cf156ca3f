package frame

import (
	"encoding/binary"
	"fmt"
)

// The sizes of entries, and of the fields of Data, in bytes.
const (
	SubscriptionSize = 92
	VerdictSize      = 20
	DataSize         = 44
	HighSize         = 24
	AckSize          = 24
	OfflineSize      = 8
	StartSize        = 12
	EndSize          = 8
	SyncSize         = 16
	ProducersSize    = 12
)

// Subscription is an entry of SB: a follower subscribes to a partition. A slot is the number by
// which both ends name the partition on this connection afterwards; the follower chooses it and
// never uses one again.
type Subscription struct {
	Slot        uint32
	Topic       [16]byte
	Partition   int32
	LeaderEpoch int32
	Directory   [16]byte // the log directory of the follower's replica
	LastEpoch   int32    // of the last batch in the follower's log; -1 if it has none
	LogEnd      int64
	LogStart    int64
	Written     int64 // the written end
	Durable     int64 // the durable end
	// WriteThrough: the follower's log directory has recorded that acknowledged records of this log
	// may be lost with the machine's power. Only then may the leader count Written.
	WriteThrough bool
	// Serial grows with each subscription of the follower's process, so that a leader recognizes
	// one that it handles late.
	Serial uint64
}

// AppendTo appends the entry to dst:
//
//	slot u32 | topic 16 | partition i32 | leader epoch i32 | directory 16 | last epoch i32 |
//	log end i64 | log start i64 | written i64 | durable i64 | write through u32 | serial u64
func (s *Subscription) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, s.Slot)
	dst = append(dst, s.Topic[:]...)
	dst = append32(dst, s.Partition)
	dst = append32(dst, s.LeaderEpoch)
	dst = append(dst, s.Directory[:]...)
	dst = append32(dst, s.LastEpoch)
	dst = append64(dst, s.LogEnd)
	dst = append64(dst, s.LogStart)
	dst = append64(dst, s.Written)
	dst = append64(dst, s.Durable)
	through := int32(0)
	if s.WriteThrough {
		through = 1
	}
	return binary.BigEndian.AppendUint64(append32(dst, through), s.Serial)
}

// ParseSubscription reads the entry at the start of p. The error wraps ErrMalformed.
func ParseSubscription(p []byte) (Subscription, error) {
	if len(p) < SubscriptionSize {
		return Subscription{}, short("SB", p)
	}
	s := Subscription{
		Slot: binary.BigEndian.Uint32(p), Partition: get32(p[20:]), LeaderEpoch: get32(p[24:]), LastEpoch: get32(p[44:]),
		LogEnd: get64(p[48:]), LogStart: get64(p[56:]), Written: get64(p[64:]), Durable: get64(p[72:]),
		WriteThrough: p[83] == 1, Serial: binary.BigEndian.Uint64(p[84:]),
	}
	copy(s.Topic[:], p[4:])
	copy(s.Directory[:], p[28:])
	if s.Partition < 0 || s.LeaderEpoch < 0 || s.LastEpoch < -1 || s.LogStart < 0 || s.LogStart > s.LogEnd ||
		s.Durable < 0 || s.Durable > s.Written || s.Written > s.LogEnd ||
		p[80]|p[81]|p[82] != 0 || p[83] > 1 {
		return s, fmt.Errorf("%w: subscription %+v", ErrMalformed, s)
	}
	return s, nil
}

// Decision is a leader's answer to a subscription.
type Decision uint8

// The decisions. Each names what Epoch and Offset of the Verdict mean.
const (
	// Accepted: the leader sends from Offset on.
	Accepted Decision = 1 + iota
	// Diverged: the leader's log ends Epoch, the last that both may share, at Offset. The follower
	// truncates to the lower of this end and its own end of that epoch, and subscribes again.
	Diverged
	// Reset: the follower's log ends below Offset, the leader's log start. It begins there again.
	Reset
	// NewerEpoch: the leader knows Epoch, which is newer than the subscription's.
	NewerEpoch
	// OlderEpoch: the leader's metadata, of Epoch, is older than the subscription's.
	OlderEpoch
	// NotHere: the broker has no such partition, or does not lead it.
	NotHere
	// Busy: the leader can't serve the partition now.
	Busy
	// Whole follows Accepted: a log that agrees with the leader's up to Offset has every record
	// that was committed before, in Epoch or an earlier one.
	Whole
)

// Verdict is an entry of VD.
type Verdict struct {
	Slot     uint32
	Decision Decision
	Epoch    int32
	Offset   int64
}

// AppendTo appends the entry to dst:
//
//	slot u32 | decision u8 | zeros 3 | epoch i32 | offset i64
func (v Verdict) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, v.Slot)
	dst = append(dst, byte(v.Decision), 0, 0, 0)
	dst = append32(dst, v.Epoch)
	return append64(dst, v.Offset)
}

// ParseVerdict reads the entry at the start of p. The error wraps ErrMalformed.
func ParseVerdict(p []byte) (Verdict, error) {
	if len(p) < VerdictSize {
		return Verdict{}, short("VD", p)
	}
	v := Verdict{Slot: binary.BigEndian.Uint32(p), Decision: Decision(p[4]), Epoch: get32(p[8:]), Offset: get64(p[12:])}
	if v.Decision < Accepted || v.Decision > Whole || p[5]|p[6]|p[7] != 0 || v.Epoch < -1 || v.Offset < 0 {
		return v, fmt.Errorf("%w: verdict %+v", ErrMalformed, v)
	}
	return v, nil
}

// Data is the start of a DA frame; whole batches follow. PrevEnd is where the batch before them
// ended in the leader's log, NextEnd where they end. Offsets in between without a batch were
// removed by compaction. A frame without batches is a gap, whose epoch is GapEpoch.
type Data struct {
	Slot        uint32
	LeaderEpoch int32
	PrevEnd     int64
	NextEnd     int64
	High        int64 // the leader's high watermark
	LogStart    int64
	GapEpoch    int32 // 0 with batches
}

// AppendTo appends the fields to dst:
//
//	slot u32 | leader epoch i32 | prev end i64 | next end i64 | high i64 | log start i64 |
//	gap epoch i32
func (d *Data) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, d.Slot)
	dst = append32(dst, d.LeaderEpoch)
	dst = append64(dst, d.PrevEnd)
	dst = append64(dst, d.NextEnd)
	dst = append64(dst, d.High)
	dst = append64(dst, d.LogStart)
	return append32(dst, d.GapEpoch)
}

// ParseData reads the payload of a DA frame. The batches alias p and are not checked. The error
// wraps ErrMalformed.
func ParseData(p []byte) (d Data, batches []byte, err error) {
	if len(p) < DataSize {
		return d, nil, short("DA", p)
	}
	d = Data{
		Slot: binary.BigEndian.Uint32(p), LeaderEpoch: get32(p[4:]),
		PrevEnd: get64(p[8:]), NextEnd: get64(p[16:]), High: get64(p[24:]), LogStart: get64(p[32:]), GapEpoch: get32(p[40:]),
	}
	if d.LeaderEpoch < 0 || d.PrevEnd < 0 || d.NextEnd < d.PrevEnd || d.High < 0 || d.LogStart < 0 ||
		d.GapEpoch < 0 || d.GapEpoch > d.LeaderEpoch || d.NextEnd == d.PrevEnd || len(p) > DataSize && d.GapEpoch != 0 {
		return d, nil, fmt.Errorf("%w: data %+v", ErrMalformed, d)
	}
	return d, p[DataSize:], nil
}

// Producers is the start of a PR frame; a part of the state of the producers below Offset follows,
// at most MaxPiece bytes. The parts come in order, and after the last one the Verdict of Reset at
// Offset.
type Producers struct {
	Slot   uint32
	Offset int64
}

// AppendTo appends the fields to dst:
//
//	slot u32 | offset i64
func (x Producers) AppendTo(dst []byte) []byte {
	return append64(binary.BigEndian.AppendUint32(dst, x.Slot), x.Offset)
}

// ParseProducers reads the payload of a PR frame. The state aliases p and is not checked. The error
// wraps ErrMalformed.
func ParseProducers(p []byte) (x Producers, state []byte, err error) {
	if len(p) < ProducersSize {
		return x, nil, short("PR", p)
	}
	if x = (Producers{Slot: binary.BigEndian.Uint32(p), Offset: get64(p[4:])}); x.Offset < 0 {
		return x, nil, fmt.Errorf("%w: producers %+v", ErrMalformed, x)
	}
	return x, p[ProducersSize:], nil
}

// High is an entry of HW.
type High struct {
	Slot        uint32
	LeaderEpoch int32
	High        int64 // the leader's high watermark
	LogStart    int64
}

// AppendTo appends the entry to dst:
//
//	slot u32 | leader epoch i32 | high i64 | log start i64
func (h High) AppendTo(dst []byte) []byte {
	return appendEnds(dst, h.Slot, h.LeaderEpoch, h.High, h.LogStart)
}

// ParseHigh reads the entry at the start of p. The error wraps ErrMalformed.
func ParseHigh(p []byte) (High, error) {
	if len(p) < HighSize {
		return High{}, short("HW", p)
	}
	h := High{Slot: binary.BigEndian.Uint32(p), LeaderEpoch: get32(p[4:]), High: get64(p[8:]), LogStart: get64(p[16:])}
	if h.LeaderEpoch < 0 || h.High < 0 || h.LogStart < 0 {
		return h, fmt.Errorf("%w: high watermark %+v", ErrMalformed, h)
	}
	return h, nil
}

// Sync is an entry of SY: the follower makes the records below End durable soon, also those that
// follow in later frames, although the profile of the topic may not ask for it.
type Sync struct {
	Slot        uint32
	LeaderEpoch int32
	End         int64
}

// AppendTo appends the entry to dst:
//
//	slot u32 | leader epoch i32 | end i64
func (s Sync) AppendTo(dst []byte) []byte {
	return append64(append32(binary.BigEndian.AppendUint32(dst, s.Slot), s.LeaderEpoch), s.End)
}

// ParseSync reads the entry at the start of p. The error wraps ErrMalformed.
func ParseSync(p []byte) (Sync, error) {
	if len(p) < SyncSize {
		return Sync{}, short("SY", p)
	}
	s := Sync{Slot: binary.BigEndian.Uint32(p), LeaderEpoch: get32(p[4:]), End: get64(p[8:])}
	if s.LeaderEpoch < 0 || s.End < 0 {
		return s, fmt.Errorf("%w: sync %+v", ErrMalformed, s)
	}
	return s, nil
}

// Ack is an entry of AK: how far a follower's log is written and durable.
type Ack struct {
	Slot        uint32
	LeaderEpoch int32
	Written     int64
	Durable     int64
}

// AppendTo appends the entry to dst:
//
//	slot u32 | leader epoch i32 | written i64 | durable i64
func (a Ack) AppendTo(dst []byte) []byte {
	return appendEnds(dst, a.Slot, a.LeaderEpoch, a.Written, a.Durable)
}

// ParseAck reads the entry at the start of p. The error wraps ErrMalformed.
func ParseAck(p []byte) (Ack, error) {
	if len(p) < AckSize {
		return Ack{}, short("AK", p)
	}
	a := Ack{Slot: binary.BigEndian.Uint32(p), LeaderEpoch: get32(p[4:]), Written: get64(p[8:]), Durable: get64(p[16:])}
	if a.LeaderEpoch < 0 || a.Durable < 0 || a.Durable > a.Written {
		return a, fmt.Errorf("%w: acknowledgement %+v", ErrMalformed, a)
	}
	return a, nil
}

// Cause is why a slot went offline or ended.
type Cause uint8

// The causes. Offline uses the first four, End the others.
const (
	// DiskFailed: the log directory of the replica failed.
	DiskFailed Cause = 1 + iota
	// LogDamaged: the replica's log has a damaged batch.
	LogDamaged
	// EpochAhead: the replica's log has batches of an epoch above its leader's.
	EpochAhead
	// BelowHigh: following the leader would truncate the log below its high watermark.
	BelowHigh
	// Gap: a DA frame did not begin at the follower's log end.
	Gap
	// DiskBusy: the log directory of the replica takes no data for the moment.
	DiskBusy
	// RoleChanged: the sender no longer leads, or no longer follows, in this epoch.
	RoleChanged
	// Removed: the partition or the replica was deleted.
	Removed
	lastCause = Removed
)

// Offline is an entry of OF: a follower's replica can't follow until it is repaired.
type Offline struct {
	Slot  uint32
	Cause Cause
}

// AppendTo appends the entry to dst:
//
//	slot u32 | cause u8 | zeros 3
func (o Offline) AppendTo(dst []byte) []byte { return appendCause(dst, o.Slot, o.Cause) }

// ParseOffline reads the entry at the start of p. The error wraps ErrMalformed.
func ParseOffline(p []byte) (Offline, error) {
	slot, cause, err := parseCause("OF", p)
	if err == nil && cause > BelowHigh {
		err = fmt.Errorf("%w: slot %d is offline for cause %d", ErrMalformed, slot, cause)
	}
	return Offline{slot, cause}, err
}

// End is an entry of US: the sender ends a slot. Either end may subscribe or serve the partition
// again, under another slot.
type End struct {
	Slot  uint32
	Cause Cause
}

// AppendTo appends the entry to dst:
//
//	slot u32 | cause u8 | zeros 3
func (e End) AppendTo(dst []byte) []byte { return appendCause(dst, e.Slot, e.Cause) }

// ParseEnd reads the entry at the start of p. The error wraps ErrMalformed.
func ParseEnd(p []byte) (End, error) {
	slot, cause, err := parseCause("US", p)
	return End{slot, cause}, err
}

// Start is an entry of LS: the log start that a follower has made durable.
type Start struct {
	Slot     uint32
	LogStart int64
}

// AppendTo appends the entry to dst:
//
//	slot u32 | log start i64
func (s Start) AppendTo(dst []byte) []byte {
	return append64(binary.BigEndian.AppendUint32(dst, s.Slot), s.LogStart)
}

// ParseStart reads the entry at the start of p. The error wraps ErrMalformed.
func ParseStart(p []byte) (Start, error) {
	if len(p) < StartSize {
		return Start{}, short("LS", p)
	}
	s := Start{Slot: binary.BigEndian.Uint32(p), LogStart: get64(p[4:])}
	if s.LogStart < 0 {
		return s, fmt.Errorf("%w: log start %+v", ErrMalformed, s)
	}
	return s, nil
}

func appendEnds(dst []byte, slot uint32, epoch int32, a, b int64) []byte {
	return append64(append64(append32(binary.BigEndian.AppendUint32(dst, slot), epoch), a), b)
}

func appendCause(dst []byte, slot uint32, c Cause) []byte {
	return append(binary.BigEndian.AppendUint32(dst, slot), byte(c), 0, 0, 0)
}

func parseCause(kind string, p []byte) (slot uint32, c Cause, err error) {
	if len(p) < EndSize {
		return 0, 0, short(kind, p)
	}
	slot, c = binary.BigEndian.Uint32(p), Cause(p[4])
	if c < DiskFailed || c > lastCause || p[5]|p[6]|p[7] != 0 {
		err = fmt.Errorf("%w: slot %d ends for cause %d", ErrMalformed, slot, c)
	}
	return slot, c, err
}

func short(kind string, p []byte) error {
	return fmt.Errorf("%w: %s payload of %d bytes is too short", ErrMalformed, kind, len(p))
}

func append32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func append64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }
func get32(p []byte) int32                { return int32(binary.BigEndian.Uint32(p)) }
func get64(p []byte) int64                { return int64(binary.BigEndian.Uint64(p)) }
