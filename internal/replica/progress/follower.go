package progress

// Follower is the high watermark of a replica that does not lead. The caller serialises its
// methods. High and Epoch are what the log's checkpoint stores; a start continues with the stored
// ones, never with the log's end, because records beyond the high watermark may be truncated.
type Follower struct {
	// Broken is empty in an ordinary build.
	Broken Broken
	// High is the high watermark, and Epoch the newest leader epoch in which it was valid.
	High  int64
	Epoch int32
	// leaderHigh is the largest high watermark that the leader of leaderEpoch reported.
	leaderHigh  int64
	leaderEpoch int32
}

// Follow begins to follow a leader. What earlier leaders reported beyond High no longer counts,
// since the log may differ from the new leader's there.
func (f *Follower) Follow() { f.leaderHigh, f.leaderEpoch = -1, -1 }

// Committed returns the high watermark that the leader has reported, -1 before it has.
func (f *Follower) Committed() int64 { return f.leaderHigh }

// LeaderHigh accepts the high watermark of a leader, where end is the end of the own log that the
// profile counts. It must be called only while the log agrees with the leader's up to its end. It
// reports whether High has moved.
func (f *Follower) LeaderHigh(high int64, epoch int32, end int64) (moved bool) {
	if epoch < f.leaderEpoch {
		return false
	}
	f.leaderHigh, f.leaderEpoch = max(f.leaderHigh, high), epoch
	return f.Own(end)
}

// Own accepts a new end of the own log that the profile counts. It reports whether High has moved.
func (f *Follower) Own(end int64) (moved bool) {
	high := min(f.leaderHigh, end)
	if f.Broken.Has(HighBeyondEnd) {
		high = f.leaderHigh
	}
	if f.leaderEpoch < 0 || high < f.High {
		return false
	}
	moved = high > f.High
	f.High, f.Epoch = high, f.leaderEpoch
	return moved
}

// LogStart accepts a new start of the own log, which the leader of an epoch reported: the records
// below it were committed.
func (f *Follower) LogStart(start int64, epoch int32) {
	if start > f.High {
		f.High, f.Epoch = start, max(f.Epoch, epoch)
	}
}

// Truncate decides whether the log may be truncated to an offset, where unclean is the newest epoch
// of the partition that began with an unclean election, 0 if none did. Above the high watermark it
// always may. Below it, only an unclean election since the high watermark was reported may discard
// records; High is then lowered, and the caller reports the loss. If ok is false, the caller takes
// the replica offline and truncates nothing.
func (f *Follower) Truncate(to int64, unclean int32) (lost, ok bool) {
	if to >= f.High {
		return false, true
	}
	if unclean <= max(f.Epoch, 0) && !f.Broken.Has(CutBelowHigh) {
		return false, false
	}
	f.High = to
	f.leaderHigh = min(f.leaderHigh, to)
	return true, true
}

// Reset lowers High for a log that is emptied and begins again at an offset. The caller must know
// that the record has the replica neither in the ISR nor in the ELR: nothing depends on its
// records.
func (f *Follower) Reset(to int64) {
	f.High, f.leaderHigh = min(f.High, to), min(f.leaderHigh, to)
}

// Divergence returns the offset to which a follower truncates its log after the leader answered
// that its epoch ends at leaderEnd, where ownEnd is the end of the same epoch in the follower's
// log. The follower then asks again, because the two logs may still differ in an earlier epoch
// (KIP-279).
func Divergence(leaderEnd, ownEnd int64) int64 { return min(leaderEnd, ownEnd) }

// Verdict is a leader's answer to a follower that wants to subscribe.
type Verdict uint8

// The verdicts.
const (
	// Accepted: the logs agree up to the follower's end; the stream begins there.
	Accepted Verdict = iota
	// Diverged: the follower truncates its log and asks again, see Divergence.
	Diverged
	// Reset: the follower's log has only what the leader has deleted, or begins above the leader's
	// start and nothing says that a leader removed what it lacks; it begins again, empty, at the
	// leader's start.
	Reset
	// FollowerBehind: the follower does not know the leader's epoch yet and tries again later.
	FollowerBehind
	// LeaderBehind: the leader does not know the follower's epoch yet; the follower tries again.
	LeaderBehind
	// NewerLog: the follower's log has an epoch above the leader's: it must neither follow nor
	// truncate.
	NewerLog
)

// Position is where a follower's log begins and ends.
type Position struct {
	// Epoch is the leader epoch that the follower believes to be the present one.
	Epoch int32
	// LastEpoch is the epoch of the last record, which may be deleted, -1 if there was none. End is
	// the log end.
	LastEpoch  int32
	Start, End int64
	// Member states that the record has the replica in its ISR or ELR. A member joined with the
	// start that its leader had then, and has moved it only as leaders did since; so it may begin
	// above a leader that lacks the last of these moves. It has no records that were not committed
	// below the leader's start; another log may have them, and would show them to readers.
	Member bool
}

// Offsets are the leader's offsets and epoch.
type Offsets struct {
	// Broken is empty in an ordinary build.
	Broken        Broken
	Epoch         int32
	Start, LogEnd int64
}

// Answer decides whether a follower may subscribe at its position. epochEnd returns the largest
// epoch of the leader's log that is not above its argument, and where it ends, as epochs.Cache.End
// does. For Diverged, epoch and end are the ones to send; for Reset and Accepted, end is the offset
// at which the stream begins.
func Answer(l Offsets, f Position, epochEnd func(epoch int32) (int32, int64)) (v Verdict, epoch int32, end int64) {
	switch {
	case f.Epoch < l.Epoch:
		return FollowerBehind, l.Epoch, 0
	case f.Epoch > l.Epoch:
		return LeaderBehind, l.Epoch, 0
	case f.LastEpoch > l.Epoch:
		return NewerLog, l.Epoch, 0
	case f.End < l.Start, f.Start > l.Start && !f.Member && !l.Broken.Has(JoinAboveStart):
		return Reset, l.Epoch, l.Start
	case f.End == l.Start && f.Start < f.End && !f.Member && !l.Broken.Has(KeepDeleted):
		return Reset, l.Epoch, l.Start // all that it has is deleted, and may be what no leader committed
	case f.LastEpoch < 0 && f.End > l.LogEnd:
		return Diverged, -1, l.LogEnd
	case f.LastEpoch < 0:
		return Accepted, l.Epoch, f.End
	}
	epoch, end = epochEnd(f.LastEpoch)
	if end < l.Start {
		return Reset, l.Epoch, l.Start // nothing of that epoch is left here
	}
	if diverges := epoch != f.LastEpoch || f.End > end; diverges && f.Start == f.End && !f.Member {
		return Reset, l.Epoch, l.Start // no truncation makes its deleted records those of the leader
	} else if diverges {
		return Diverged, epoch, end
	}
	return Accepted, l.Epoch, f.End
}
