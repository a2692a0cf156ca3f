package diskguard

import (
	"strings"
	"testing"
)

const mib = 1 << 20

func TestThresholdFollowsTheFileSystem(t *testing.T) {
	const gib = 1 << 30
	for total, want := range map[int64]int64{
		16_000 * gib: gib, 100 * gib: gib, 20 * gib: gib, 10 * gib: 512 * mib, 2 * gib: 256 * mib, gib: 256 * mib, gib / 2: 128 * mib, 0: 0,
	} {
		if got := Threshold(Auto, total); got != want {
			t.Errorf("of %d bytes it is %d, want %d", total, got, want)
		}
	}
	if Threshold(0, gib) != 0 || Threshold(7, gib) != 7 {
		t.Error("a threshold that was set is not the one in force")
	}
}

// A disk of any size with 2 GiB free accepts records: a laptop's is often nearly full.
func TestALaptopWithLittleFreeSpaceAcceptsRecords(t *testing.T) {
	const gib = 1 << 30
	for _, total := range []int64{3 * gib, 20 * gib, 252 * gib, 16_000 * gib} {
		r := Reading{Free: 2 * gib, Total: total, Owed: 128 * mib}
		if s := r.Judge(Auto, OK, "/d", "/d/journal"); s.Level != OK {
			t.Errorf("of %d GiB: %s", total/gib, s.Message)
		}
	}
}

func TestAJournalFitsItsDisk(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		total     int64
		apart     bool
		file, all int64
	}{
		{1 << 40, false, 64 * mib, gib}, {8 * gib, false, 64 * mib, gib}, {4 * gib, false, 64 * mib, gib / 2},
		{gib, false, 16 * mib, 128 * mib},
		{150 * mib, false, 150 * mib / 64, 150 * mib / 8}, {10 * mib, false, 2 * mib, 16 * mib}, {gib, true, 64 * mib, gib / 2},
		{0, false, 2 * mib, 16 * mib},
	} {
		if got := SizesFor(c.total, c.apart); got != (JournalSizes{c.file, c.all}) {
			t.Errorf("on %d MiB, apart %v: %+v", c.total/mib, c.apart, got)
		}
	}
}

// Below the threshold the level is low, below half of it critical. Each level ends at a tenth above
// its threshold, so that it does not alternate.
func TestALevelEndsATenthHigher(t *testing.T) {
	level := OK
	for _, c := range []struct {
		free int64
		want Level
	}{{100, OK}, {99, Low}, {109, Low}, {50, Low}, {49, Critical}, {54, Critical}, {55, Low}, {109, Low}, {110, OK}, {10, Critical},
		{200, OK}} {
		r := Reading{Free: c.free * mib, Total: 1 << 40}
		s := r.Judge(100*mib, level, "/d", "/d/journal")
		if level = s.Level; level != c.want || (s.Message == "") != (level == OK) {
			t.Errorf("with %d MiB free it is %s, want %s: %q", c.free, level, c.want, s.Message)
		}
	}
}

// Bytes that will be written without another record count as used. A journal on another disk needs
// what it may still grow by, no more.
func TestReservedBytesCount(t *testing.T) {
	for name, c := range map[string]struct {
		r    Reading
		want string
	}{
		"room": {Reading{Free: 100 * mib}, ""},
		"owed": {Reading{Free: 100 * mib, Owed: 20 * mib}, "20 MiB of it reserved"},
		"the journal's disk": {Reading{Free: 900 * mib, JournalFree: 30 * mib, Growth: 40 * mib, Apart: true},
			"journal directory /j has 30 MiB free, the threshold is 40 MiB"},
		"it need not grow":     {Reading{Free: 900 * mib, Apart: true}, ""},
		"the journal's is not": {Reading{Free: 900 * mib, JournalFree: 30 * mib, Growth: 40 * mib}, ""},
	} {
		c.r.Total = 1 << 40
		if s := c.r.Judge(100*mib, OK, "/d", "/j"); (s.Level == OK) != (c.want == "") || !strings.Contains(s.Message, c.want) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	off := Reading{Total: 1 << 40}
	if s := off.Judge(0, OK, "/d", "/j"); s.Level != OK {
		t.Errorf("the guard is off: %+v", s)
	}
}

// Between two measurements no more is appended than is free above the threshold, even if every byte
// is written twice.
func TestTheAllowanceStaysAboveTheThreshold(t *testing.T) {
	for _, margin := range []int64{4 * mib, 100 * mib, 1 << 40} {
		s := Space{Free: 50*mib + margin + 7, Owed: 7, MinFree: 50 * mib}
		if due, most := s.Allowance(); due <= 0 || due > most || 2*most > margin {
			t.Errorf("with %d bytes above the threshold: due after %d, %d at most", margin, due, most)
		}
	}
}
