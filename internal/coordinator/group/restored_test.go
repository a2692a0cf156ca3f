package group

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// restore makes the coordinator one of a restored cluster, whose leader epochs are by rise above
// those of the records so far.
func (w *world) restore(rise int32) {
	w.t.Helper()
	for i := range w.log {
		w.log[i].Rise += rise
	}
	w.start()
}

// rise is the least gap between the leader epochs of a snapshot and those of its restore.
const rise = 1 << 20

// restoredKinds makes a group "g" of each kind with a member, and commits the offset 7 of topic t
// where it has offsets. They return the epoch of the group, what the former member receives, and
// how a new one joins.
var restoredKinds = map[string]func(t *testing.T, broken Broken) (w *world, epoch int32, former, next func() (epoch int32, code int16)){
	"classic": func(t *testing.T, broken Broken) (w *world, epoch int32, former, next func() (int32, int16)) {
		w = newWorld(t, func(c *Config) { c.Broken = broken })
		w.topic("t", 1)
		member, _, generation := w.two()
		is(t, w.commit(commitOf(member, generation, "t", 7)), nil)
		return w, generation, func() (int32, int16) { return generation, w.beat(member, generation) }, func() (int32, int16) {
			_, j := w.join("")
			w.advance(0)
			r := answer[*kmsg.JoinGroupResponse](w, j)
			return r.Generation, r.ErrorCode
		}
	},
	"consumer": func(t *testing.T, broken Broken) (w *world, epoch int32, former, next func() (int32, int16)) {
		w = newWorld(t, func(c *Config) { c.Broken = broken })
		w.topic("t", 1)
		a := w.newClient("a", "t")
		is(t, w.commit(commitOf("a", a.epoch, "t", 7)), nil)
		return w, w.described().Epoch, func() (int32, int16) { code := a.beat(); return a.epoch, code }, func() (int32, int16) {
			b := &client{w: w, id: "b", request: a.request}
			code := b.join()
			return b.epoch, code
		}
	},
	"streams": func(t *testing.T, broken Broken) (w *world, epoch int32, former, next func() (int32, int16)) {
		w = newWorld(t, quick(), func(c *Config) { c.Broken = broken })
		w.topic("t", 1)
		a := w.newStreamsClient("a", simple("t"))
		is(t, w.commit(commitOf("a", a.epoch, "t", 7)), nil)
		return w, w.streamsDescribed().Epoch, func() (int32, int16) { code := a.beat(); return a.epoch, code }, func() (int32, int16) {
			b := &streamsClient{w: w, id: "b", request: a.request}
			code := b.join()
			return b.epoch, code
		}
	},
	"share": func(t *testing.T, broken Broken) (w *world, epoch int32, former, next func() (int32, int16)) {
		w, _ = shareWorld(t, func(c *Config) { c.Broken = broken })
		a := w.newShareClient("a", "t")
		return w, w.shareDescribed().GroupEpoch, func() (int32, int16) { code := a.beat(); return a.epoch, code }, func() (int32, int16) {
			b := &shareClient{w: w, id: "b", topics: a.topics}
			code := b.join()
			return b.epoch, code
		}
	},
}

// restoredWrongly restores a group and returns what is wrong then.
func restoredWrongly(t *testing.T, kind string, broken Broken) string {
	t.Helper()
	w, before, former, next := restoredKinds[kind](t, broken)
	w.restore(rise + 5)
	if s := w.state("g"); s != "Empty" {
		return "it is " + s
	}
	if kind != "share" {
		if p := w.fetched("t"); p.Offset != 7 {
			return fmt.Sprintf("its offset is %d", p.Offset)
		}
	}
	if epoch, code := former(); code != kerr.UnknownMemberID.Code {
		return fmt.Sprintf("the former member gets %v and epoch %d", kerr.ErrorForCode(code), epoch)
	}
	epoch, code := next()
	if code != 0 || epoch < before+1<<16 {
		return fmt.Sprintf("a new member gets epoch %d after %d, %v", epoch, before, kerr.ErrorForCode(code))
	}
	if broken == (Broken{}) {
		w.replays()
	}
	w.restore(rise + 9) // a snapshot of the restored cluster
	if again, code := next(); code != 0 || again < epoch+1<<16 {
		return fmt.Sprintf("after another restore a member gets epoch %d after %d, %v", again, epoch, kerr.ErrorForCode(code))
	}
	return ""
}

// A restored group has its offsets, no member, and an epoch above all that clients of the original
// may know; also after a second restore. Its members of before join again.
func TestRestoredGroupsHaveOffsetsAndNoMembers(t *testing.T) {
	for kind := range restoredKinds {
		t.Run(kind, func(t *testing.T) {
			if wrong := restoredWrongly(t, kind, Broken{}); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// The retention of offsets does not count the time between the snapshot and the restore.
func TestRestoredOffsetsAreRetained(t *testing.T) {
	w, _, _, _ := restoredKinds["consumer"](t, Broken{})
	w.now = w.now.Add(w.cfg.Retention + time.Hour)
	w.restore(rise)
	w.advance(w.cfg.Retention - time.Hour)
	if p := w.fetched("t"); p.Offset != 7 {
		t.Fatalf("the offset is %d", p.Offset)
	}
	w.advance(2*time.Hour + w.cfg.RetentionCheck)
	if p := w.fetched("t"); p.Offset != -1 {
		t.Errorf("the offset is still %d", p.Offset)
	}
}

// The same for a group whose offsets are all committed in transactions.
func TestRestoredOffsetsOfTransactionsAreRetained(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 7), nil)
	w.decide(true)
	w.now = w.now.Add(w.cfg.Retention + time.Hour)
	w.restore(rise)
	w.advance(w.cfg.Retention - time.Hour)
	if p := w.fetched("t"); p.Offset != 7 {
		t.Errorf("the offset is %d", p.Offset)
	}
}

// An epoch that cannot rise is an error, and not a negative one.
func TestRestoredEpochsDoNotOverflow(t *testing.T) {
	w := newWorld(t)
	const most = math.MaxInt32 - 1<<16
	for _, v := range []value{format.ClassicGroup{Generation: most}, format.Group{Epoch: most}, format.Share{Epoch: most},
		format.Streams{Epoch: most}, format.TargetEpoch{Epoch: most}} {
		if _, err := w.shard.restored(v, rise); err != nil {
			t.Errorf("%T: %v", v, err)
		}
		if got, err := w.shard.restored(v, rise+1<<riseShift); err == nil {
			t.Errorf("%T: %+v", v, got)
		}
	}
}
