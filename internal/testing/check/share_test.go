package check

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestShare(t *testing.T) {
	const lock = 10 * time.Second
	log := []Record{{0, 1, "a"}, {1, 1, "b"}, {2, 1, "c"}}
	// take lets a session get a record by a fetch of a second, in a leader epoch.
	take := func(s *Share, session string, r Record, leader int32, count int) {
		asked := time.Now()
		time.Sleep(time.Second)
		s.Took(Delivery{Record: r, Session: session, Leader: leader, Count: count, Asked: asked, Lock: lock})
	}
	ack := func(s *Share, session string, r Record, by Ack) {
		answered := s.Acknowledging(session, r, by)
		time.Sleep(time.Second)
		answered(true)
		time.Sleep(time.Millisecond)
	}
	alive := func(s *Share, sessions ...string) {
		time.Sleep(time.Second)
		for _, x := range sessions {
			s.Alive(x, time.Now())
		}
	}
	const d = "d"
	r := Record{3, 1, d}
	for name, x := range map[string]struct {
		do    func(s *Share)
		start int64
		want  string
	}{
		"sound":                   {func(*Share) {}, 3, ""},
		"a record is left":        {func(*Share) {}, 2, `left: offset 2, "c"`},
		"again":                   {func(s *Share) { take(s, "x", log[0], 1, 2) }, 3, `again: offset 0, "a", was delivered to x`},
		"in a later epoch":        {func(s *Share) { take(s, "x", log[0], 2, 2) }, 3, `again: offset 0`},
		"by a former leader":      {func(s *Share) { take(s, "x", log[0], 0, 2) }, 3, ""},
		"by an unknown leader":    {func(s *Share) { take(s, "x", log[0], -1, 2) }, 3, ""},
		"the next one there":      {func(s *Share) { take(s, "x", Record{0, 2, "e"}, 2, 1) }, 3, ""},
		"the state may be lost":   {func(s *Share) { s.LoseState(); take(s, "x", log[0], 2, 1) }, 3, ""},
		"released":                {func(s *Share) { take(s, "a", r, 1, 1); ack(s, "a", r, Release); take(s, "x", r, 2, 2) }, 3, ""},
		"the count falls":         {func(s *Share) { take(s, "a", r, 1, 2); ack(s, "a", r, Release); take(s, "x", r, 2, 2) }, 3, "count: "},
		"it may, if not released": {func(s *Share) { take(s, "a", r, 1, 2); take(s, "x", r, 2, 1) }, 3, ""},
		"above the limit":         {func(s *Share) { take(s, "a", r, 1, 6) }, 3, "limit: "},
		"two owners":              {func(s *Share) { take(s, "a", r, 1, 1); take(s, "x", r, 1, 2); alive(s, "a", "x") }, 3, "owners: "},
		"the owner has ended":     {func(s *Share) { alive(s, "a"); take(s, "a", r, 1, 1); take(s, "x", r, 1, 2); alive(s, "x") }, 3, ""},
		"its lock has ended": {func(s *Share) {
			take(s, "a", r, 1, 1)
			time.Sleep(lock)
			take(s, "x", r, 1, 2)
			alive(s, "a", "x")
		}, 3, ""},
		"its lock was renewed": {func(s *Share) {
			take(s, "a", r, 1, 1)
			time.Sleep(lock / 2)
			ack(s, "a", r, Renew)
			time.Sleep(lock / 2)
			take(s, "x", r, 1, 2)
			alive(s, "a", "x")
		}, 3, "owners: "},
		"it has released": {func(s *Share) {
			take(s, "a", r, 1, 1)
			ack(s, "a", r, Release)
			take(s, "x", r, 1, 2)
			alive(s, "a", "x")
		}, 3, ""},
		"owners in two epochs":  {func(s *Share) { take(s, "a", r, 1, 1); take(s, "x", r, 2, 2); alive(s, "a", "x") }, 3, ""},
		"the count of a leader": {func(s *Share) { take(s, "a", r, 1, 1); time.Sleep(lock); take(s, "x", r, 1, 1); alive(s, "a") }, 3, "count: "},
		"the start falls":       {func(s *Share) { s.Started(3); s.Started(2) }, 3, "start: "},
		"it may fall":           {func(s *Share) { s.Started(3); s.LoseRecords(); s.Started(2) }, 3, ""},
		"skipped":               {func(s *Share) { s.record(log[1], true).accept = false }, 3, `skipped: offset 1, "b"`},
		"seen by no member":     {func(s *Share) { delete(s.records, 1) }, 3, "skipped: offset 1"},
		"too few lost answers":  {func(s *Share) { delete(s.records, 1); s.Unanswered() }, 3, "skipped: offset 1"},
		"the last delivery": {func(s *Share) {
			s.record(log[1], true).accept = false
			take(s, "x", log[1], 2, 5)
			s.Copied(Record{1, -1, "b"})
		}, 3, ""},
		"no copy":               {func(s *Share) { s.record(log[2], true).copies = 0 }, 3, `copies: offset 2, "c" has none`},
		"copies may be lost":    {func(s *Share) { s.record(log[2], true).copies = 0; s.LoseCopies() }, 3, ""},
		"two copies":            {func(s *Share) { s.Copied(Record{2, -1, "c"}) }, 3, "copies: offset 2"},
		"a copy of an accepted": {func(s *Share) { s.Copied(Record{0, -1, "a"}) }, 3, `copies: offset 0, "a" has one, and a member`},
		"a late accept": {func(s *Share) {
			take(s, "a", log[1], 1, 2)
			time.Sleep(lock)
			take(s, "x", log[1], 1, 3)
			ack(s, "x", log[1], Reject)
			ack(s, "a", log[1], Accept)
			s.Copied(Record{1, -1, "b"})
		}, 3, ""},
		"forgotten":            {func(s *Share) { s.Forget(2, log); s.Forget(2, log) }, 3, ""},
		"forgotten, but left":  {func(s *Share) { s.record(log[1], true).accept = false; s.Forget(2, log) }, 3, "skipped: offset 1"},
		"again, and forgotten": {func(s *Share) { s.Forget(2, log); time.Sleep(2 * time.Minute); take(s, "x", log[1], 1, 1) }, 3, "again: "},
		"a late copy":          {func(s *Share) { s.Forget(2, log); s.Copied(Record{1, -1, "b"}) }, 3, "copies: one of offset 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Share{Limit: 5, Letters: true}
				for _, r := range log {
					take(s, "a", r, 1, 1)
				}
				ack(s, "a", log[0], Accept)
				s.Acknowledging("a", log[1], Accept)(false)
				ack(s, "a", log[2], Reject)
				s.Copied(Record{2, -1, "c"})
				x.do(s)
				got := strings.Join(s.Problems(log, x.start), "\n")
				if (x.want == "") != (got == "") || !strings.HasPrefix(got, x.want) {
					t.Errorf("want %q, got %q", x.want, got)
				}
			})
		})
	}
}
