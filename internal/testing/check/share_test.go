package check

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const shareLock = 10 * time.Second

// takes lets a session get a record by a fetch of a second, in a leader epoch.
func takes(s *Share, session string, r Record, leader int32, count int) {
	asked := time.Now()
	time.Sleep(time.Second)
	s.Took(Delivery{Record: r, Session: session, Leader: leader, Count: count, Asked: asked, Lock: shareLock})
}

func acks(s *Share, session string, r Record, by Ack) {
	answered := s.Acknowledging(session, r, by)
	time.Sleep(time.Second)
	answered(true)
	time.Sleep(time.Millisecond)
}

func alive(s *Share, sessions ...string) {
	time.Sleep(time.Second)
	for _, x := range sessions {
		s.Alive(x, time.Now())
	}
}

var (
	shareLog = []Record{{0, 1, "a"}, {1, 1, "b"}, {2, 1, "c"}}
	fourth   = Record{3, 1, "d"}
)

// shareCases happen after a member has accepted the first two records, the second without an
// answer, and rejected the third one.
var shareCases = map[string]struct {
	do    func(s *Share)
	start int64
	want  string
}{
	"sound":               {func(*Share) {}, 3, ""},
	"a record is left":    {func(*Share) {}, 2, `left: offset 2, "c"`},
	"again":               {func(s *Share) { takes(s, "x", shareLog[0], 1, 2) }, 3, `again: offset 0, "a", was delivered to x`},
	"in a later epoch":    {func(s *Share) { takes(s, "x", shareLog[0], 2, 2) }, 3, `again: offset 0`},
	"an unclean election": {func(s *Share) { s.LoseRecords(2); takes(s, "x", shareLog[0], 2, 1) }, 3, `again: offset 0`},
	"a record that returns": {func(s *Share) {
		s.LoseRecords(2)
		s.LoseRecords(3)
		s.LoseRecords(3)
		takes(s, "x", shareLog[0], 3, 1)
	}, 3, ""},
	"a leader that was short": {func(s *Share) { takes(s, "x", shareLog[0], 2, 2); s.LeaderWasShort() }, 3, ""},
	"it excuses nothing else": {func(s *Share) { s.LeaderWasShort() }, 2, `left: offset 2, "c"`},
	"by a former leader":      {func(s *Share) { takes(s, "x", shareLog[0], 0, 2) }, 3, ""},
	"by an unknown leader":    {func(s *Share) { takes(s, "x", shareLog[0], -1, 2) }, 3, ""},
	"the next one there":      {func(s *Share) { takes(s, "x", Record{0, 2, "e"}, 2, 1) }, 3, ""},
	"the state may be lost":   {func(s *Share) { s.LoseState(); takes(s, "x", shareLog[0], 2, 1) }, 3, ""},
	"released": {func(s *Share) {
		takes(s, "a", fourth, 1, 1)
		acks(s, "a", fourth, Release)
		takes(s, "x", fourth, 2, 2)
	}, 3, ""},
	"the count falls": {func(s *Share) {
		takes(s, "a", fourth, 1, 2)
		acks(s, "a", fourth, Release)
		takes(s, "x", fourth, 2, 2)
	}, 3, "count: "},
	"it may, if not released": {func(s *Share) { takes(s, "a", fourth, 1, 2); takes(s, "x", fourth, 2, 1) }, 3, ""},
	"above the limit":         {func(s *Share) { takes(s, "a", fourth, 1, 6) }, 3, "limit: "},
	"two owners": {func(s *Share) {
		takes(s, "a", fourth, 1, 1)
		takes(s, "x", fourth, 1, 2)
		alive(s, "a", "x")
	}, 3, "owners: "},
	"the owner has ended": {func(s *Share) {
		alive(s, "a")
		takes(s, "a", fourth, 1, 1)
		takes(s, "x", fourth, 1, 2)
		alive(s, "x")
	}, 3, ""},
	"its shareLock has ended": {func(s *Share) {
		takes(s, "a", fourth, 1, 1)
		time.Sleep(shareLock)
		takes(s, "x", fourth, 1, 2)
		alive(s, "a", "x")
	}, 3, ""},
	"its shareLock was renewed": {func(s *Share) {
		takes(s, "a", fourth, 1, 1)
		time.Sleep(shareLock / 2)
		acks(s, "a", fourth, Renew)
		time.Sleep(shareLock / 2)
		takes(s, "x", fourth, 1, 2)
		alive(s, "a", "x")
	}, 3, "owners: "},
	"it has released": {func(s *Share) {
		takes(s, "a", fourth, 1, 1)
		acks(s, "a", fourth, Release)
		takes(s, "x", fourth, 1, 2)
		alive(s, "a", "x")
	}, 3, ""},
	"owners in two epochs": {func(s *Share) { takes(s, "a", fourth, 1, 1); takes(s, "x", fourth, 2, 2); alive(s, "a", "x") }, 3, ""},
	"the count of a leader": {func(s *Share) {
		takes(s, "a", fourth, 1, 1)
		time.Sleep(shareLock)
		takes(s, "x", fourth, 1, 1)
		alive(s, "a")
	}, 3, "count: "},
	"the start falls":      {func(s *Share) { s.Started(3); s.Started(2) }, 3, "start: "},
	"it may fall":          {func(s *Share) { s.Started(3); s.LoseRecords(2); s.Started(2) }, 3, ""},
	"skipped":              {func(s *Share) { s.record(shareLog[1], true).accept = false }, 3, `skipped: offset 1, "b"`},
	"seen by no member":    {func(s *Share) { delete(s.records, 1) }, 3, "skipped: offset 1"},
	"too few lost answers": {func(s *Share) { delete(s.records, 1); s.Unanswered() }, 3, "skipped: offset 1"},
	"the last delivery": {func(s *Share) {
		s.record(shareLog[1], true).accept = false
		takes(s, "x", shareLog[1], 2, 5)
		s.Copied(Record{1, -1, "b"})
	}, 3, ""},
	"no copy":               {func(s *Share) { s.record(shareLog[2], true).copies = 0 }, 3, `copies: offset 2, "c" has none`},
	"copies may be lost":    {func(s *Share) { s.record(shareLog[2], true).copies = 0; s.LoseCopies() }, 3, ""},
	"two copies":            {func(s *Share) { s.Copied(Record{2, -1, "c"}) }, 3, "copies: offset 2"},
	"a copy of an accepted": {func(s *Share) { s.Copied(Record{0, -1, "a"}) }, 3, `copies: offset 0, "a" has one, and a member`},
	"a copy after an accept that a later leader answered": {func(s *Share) {
		takes(s, "x", shareLog[1], 1, 2)
		acks(s, "x", shareLog[1], Accept)
		s.Shown("x", 3)
		for range 4 {
			s.Unanswered()
		}
		s.Copied(Record{1, -1, "b"})
	}, 3, ""},
	"a late renewal renews nothing": {func(s *Share) {
		takes(s, "x", shareLog[1], 1, 5)
		time.Sleep(shareLock)
		acks(s, "x", shareLog[1], Renew)
		acks(s, "x", shareLog[1], Accept)
		s.Shown("x", 1)
		s.Copied(Record{1, -1, "b"})
	}, 3, ""},
	"a late accept": {func(s *Share) {
		takes(s, "a", shareLog[1], 1, 2)
		time.Sleep(shareLock)
		takes(s, "x", shareLog[1], 1, 3)
		acks(s, "x", shareLog[1], Reject)
		acks(s, "a", shareLog[1], Accept)
		s.Copied(Record{1, -1, "b"})
	}, 3, ""},
	"forgotten":           {func(s *Share) { s.Forget(2, shareLog); s.Forget(2, shareLog) }, 3, ""},
	"forgotten, but left": {func(s *Share) { s.record(shareLog[1], true).accept = false; s.Forget(2, shareLog) }, 3, "skipped: offset 1"},
	"again, and forgotten": {func(s *Share) {
		s.Forget(2, shareLog)
		time.Sleep(2 * time.Minute)
		takes(s, "x", shareLog[1], 1, 1)
	}, 3, "again: "},
	"a late copy": {func(s *Share) { s.Forget(2, shareLog); s.Copied(Record{1, -1, "b"}) }, 3, "copies: one of offset 1"},
}

func TestShare(t *testing.T) {
	for name, x := range shareCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Share{Limit: 5, Letters: true}
				for _, r := range shareLog {
					takes(s, "a", r, 1, 1)
				}
				acks(s, "a", shareLog[0], Accept)
				s.Acknowledging("a", shareLog[1], Accept)(false)
				acks(s, "a", shareLog[2], Reject)
				s.Shown("a", 1)
				s.Copied(Record{2, -1, "c"})
				x.do(s)
				got := strings.Join(s.Problems(shareLog, x.start), "\n")
				if (x.want == "") != (got == "") || !strings.HasPrefix(got, x.want) {
					t.Errorf("want %q, got %q", x.want, got)
				}
			})
		})
	}
}
