package progress

import "testing"

func TestFollowerHighIsLimitedToItsOwnEnd(t *testing.T) {
	f := Follower{High: 5, Epoch: 2}
	f.Follow()
	if f.Own(9) || f.High != 5 {
		t.Error("the high watermark moves before a leader has reported one")
	}
	if !f.LeaderHigh(20, 3, 10) || f.High != 10 || f.Epoch != 3 {
		t.Errorf("high %d in epoch %d, want 10 in 3", f.High, f.Epoch)
	}
	if !f.Own(30) || f.High != 20 {
		t.Errorf("high %d, want the leader's 20", f.High)
	}
	if f.LeaderHigh(40, 2, 50) || f.LeaderHigh(15, 3, 50) || f.High != 20 {
		t.Errorf("high %d after reports of an older epoch and of a lower offset", f.High)
	}
	f.Follow()
	if f.Own(50) || f.High != 20 {
		t.Errorf("high %d: what an earlier leader reported counts", f.High)
	}
	if f.LeaderHigh(20, 6, 50) || f.Epoch != 6 {
		t.Errorf("epoch %d, want 6, in which 20 was confirmed", f.Epoch)
	}
	if f.LogStart(25, 6); f.High != 25 {
		t.Errorf("high %d below the log start 25", f.High)
	}
}

func TestTruncateBelowHighNeedsAnUncleanElection(t *testing.T) {
	for _, c := range []struct {
		to       int64
		unclean  int32
		lost, ok bool
		high     int64
	}{
		{10, 0, false, true, 10},
		{15, 9, false, true, 10},
		{9, 0, false, false, 10},
		{9, 4, false, false, 10}, // the high watermark was confirmed in epoch 4
		{9, 5, true, true, 9},
	} {
		f := Follower{High: 10, Epoch: 4}
		f.Follow()
		if lost, ok := f.Truncate(c.to, c.unclean); lost != c.lost || ok != c.ok || f.High != c.high {
			t.Errorf("Truncate(%d, %d) = %v, %v, high %d", c.to, c.unclean, lost, ok, f.High)
		}
	}
	f := Follower{High: 10, Epoch: -1} // the epoch is not known
	if _, ok := f.Truncate(9, 0); ok {
		t.Error("truncated below the high watermark without an unclean election")
	}
}

// at is the position of a member of the ISR whose log begins at 5.
func at(epoch, last int32, end int64) Position {
	return Position{Epoch: epoch, LastEpoch: last, Start: min(5, end), End: end, Member: true}
}

func TestAnswer(t *testing.T) {
	l := Offsets{Epoch: 7, Start: 5, LogEnd: 40}
	// The leader has epoch 3 at 5 to 20, epoch 4 at 20 to 30, and epoch 7 at 30 to 40.
	epochEnd := func(e int32) (int32, int64) {
		switch {
		case e >= 7:
			return 7, 40
		case e >= 4:
			return 4, 30
		case e >= 3:
			return 3, 20
		}
		return e, 5
	}
	for _, c := range []struct {
		name  string
		f     Position
		v     Verdict
		epoch int32
		end   int64
	}{
		{"caught up", at(7, 7, 40), Accepted, 7, 40},
		{"behind", at(7, 3, 12), Accepted, 7, 12},
		{"empty", at(7, -1, 5), Accepted, 7, 5},
		{"empty, below the start", at(7, -1, 0), Reset, 7, 5},
		{"empty, above the end", at(7, -1, 50), Diverged, -1, 40},
		{"longer in its last epoch", at(7, 4, 33), Diverged, 4, 30},
		{"an epoch that the leader lacks", at(7, 6, 33), Diverged, 4, 30},
		{"an epoch that the leader has deleted", at(7, 2, 9), Diverged, 2, 5},
		{"ends where the leader begins", Position{Epoch: 7, LastEpoch: 2, End: 5}, Reset, 7, 5},
		{"all is deleted, of an epoch that the leader lacks", Position{Epoch: 7, LastEpoch: 6, Start: 5, End: 5}, Reset, 7, 5},
		{"a member that ends where the leader begins", Position{Epoch: 7, LastEpoch: 2, End: 5, Member: true}, Accepted, 7, 5},
		{"below the start", at(7, 3, 4), Reset, 7, 5},
		{"an older image", at(6, 3, 12), FollowerBehind, 7, 0},
		{"a newer image", at(8, 8, 12), LeaderBehind, 7, 0},
		{"a newer log", at(7, 8, 50), NewerLog, 7, 0},
		{"begins above", Position{Epoch: 7, LastEpoch: 7, Start: 6, End: 40}, Reset, 7, 5},
		{"empty, begins above", Position{Epoch: 7, LastEpoch: -1, Start: 40, End: 40}, Reset, 7, 5},
		{"a member that begins above", Position{Epoch: 7, LastEpoch: 7, Start: 6, End: 40, Member: true}, Accepted, 7, 40},
	} {
		if v, epoch, end := Answer(l, c.f, epochEnd); v != c.v || epoch != c.epoch || end != c.end {
			t.Errorf("%s: %d, %d, %d, want %d, %d, %d", c.name, v, epoch, end, c.v, c.epoch, c.end)
		}
	}
	none := func(int32) (int32, int64) { return -1, -1 }
	if v, _, end := Answer(l, at(7, 3, 12), none); v != Reset || end != 5 {
		t.Errorf("a leader that knows no epoch: %d at %d, want a reset at 5", v, end)
	}
	if Divergence(10, 8) != 8 || Divergence(7, 8) != 7 {
		t.Error("Divergence is not the lower end")
	}
}
