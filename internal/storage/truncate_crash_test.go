package storage

import (
	"fmt"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// TestFault01PowerLossInATruncation kills the process or cuts the power at every second call of
// those that points selects. In the run a log is cut twice, and other batches follow where segments
// began before. After a restart, no producer file is of an earlier history.
func TestFault01PowerLossInATruncation(t *testing.T) {
	t.Parallel()
	for call := 1; ; call += 2 * points(25) {
		f := crashfs.New(uint64(call))
		f.CrashDuring(call)
		var promised int64 // no image ends below it
		d, err := openDir(f, "sync", func(o *Options) { o.Config = func(string, ID) Config { return turnsConfig() } })
		if err == nil {
			var logs []*Log
			spec := Spec{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: turnsConfig()}
			if logs, err = d.Create([]Spec{spec}); err == nil {
				err = cutTwice(logs[0], &promised)
			}
			_ = d.Close()
		}
		if err != nil && !f.Crashed() {
			t.Fatalf("call %d: %v", call, err)
		}
		images := []*crashfs.FS{f.KillImage(1)}
		for _, m := range crashfs.Modes() {
			images = append(images, f.PowerLossImage(m, uint64(call)))
		}
		for i, image := range images {
			if err := afterCuts(image, promised); err != nil {
				t.Fatalf("call %d, image %d: %v", call, i, err)
			}
		}
		if !f.Crashed() {
			return
		}
	}
}

func cutTwice(l *Log, promised *int64) error {
	for i, end := range []int64{23, 9, 14} {
		if err := inTurns(l, int64(10*i), 30); err != nil {
			return err
		}
		*promised = min(l.Ends().Durable, end)
		if err := l.Truncate(end); err != nil {
			return err
		}
		// Batches without a producer may shift the bases of the next segments.
		for range end % 2 {
			if a := send(l, numbered(-1, -1, time.Now())); a.Err != nil {
				return a.Err
			}
		}
	}
	return nil
}

// afterCuts opens the directory that a crash left, and appends another history.
func afterCuts(image *crashfs.FS, promised int64) error {
	d, err := openDir(image, "sync", func(o *Options) { o.Config = func(string, ID) Config { return turnsConfig() } })
	if err != nil {
		return err
	}
	defer d.Close()
	if len(d.Logs()) == 0 && promised == 0 {
		return nil
	}
	l := d.Logs()[0]
	if e := l.Ends(); l.Offline() != nil || e.LogEnd < promised {
		return fmt.Errorf("the log is %+v, promised was %d: %w", e, promised, l.Offline())
	}
	if _, err := trueProducers(l); err != nil {
		return err
	}
	for id := range int64(2) {
		if err := l.Truncate(max(l.Ends().LogEnd-5, 0)); err != nil {
			return err
		}
		for seq := range int32(14) { // other producers, in segments with the same bases
			if a := send(l, numbered(100+id, seq, time.Now())); a.Err != nil {
				return a.Err
			}
		}
		if err := l.flushAll(); err != nil {
			return err
		}
		if _, err := trueProducers(l); err != nil {
			return err
		}
	}
	return nil
}

// TestFault01PowerLossInTruncationsTogether kills the process or cuts the power at every call of a
// truncation of many logs at once. After a restart, each log has its old end or its new one, and
// the new one once the truncation has returned. A log that has nothing to cut keeps its records.
func TestFault01PowerLossInTruncationsTogether(t *testing.T) {
	t.Parallel()
	const n = 6
	for call := 1; ; call += points(9) {
		f := crashfs.New(uint64(call))
		d, err := openDir(f, "sync", func(o *Options) { o.JournalBytes = 16 << 20 })
		must(t, err)
		var specs []Spec
		for i := range int32(n) {
			specs = append(specs, Spec{ID: ID{Topic: [16]byte{1}, Partition: i}, Topic: "t", Config: turnsConfig()})
		}
		logs, err := d.Create(specs)
		for i := 0; i < n && err == nil; i++ {
			err = inTurns(logs[i], 1, 12)
		}
		must(t, err)
		cuts := make([]Truncation, n)
		for i, l := range logs {
			cuts[i] = Truncation{Log: l, End: int64(3*i) + 1, Reset: i == 1} // the last two keep all
		}
		f.CrashDuring(f.Ops() + call)
		d.Truncate(cuts)
		crashed := f.Crashed()
		images := []*crashfs.FS{f.KillImage(1)}
		for _, m := range crashfs.Modes() {
			images = append(images, f.PowerLossImage(m, uint64(call)))
		}
		for i, image := range images {
			if err := afterCutsTogether(image, cuts, crashed); err != nil {
				t.Fatalf("call %d, image %d: %v", call, i, err)
			}
		}
		_ = d.Close()
		if !crashed {
			return
		}
	}
}

// afterCutsTogether checks the logs that a crash left.
func afterCutsTogether(image *crashfs.FS, cuts []Truncation, crashed bool) error {
	d, err := openDir(image, "sync", func(o *Options) { o.Config = func(string, ID) Config { return turnsConfig() } })
	if err != nil {
		return err
	}
	defer d.Close()
	cut, kept := 0, 0
	for _, l := range d.Logs() {
		c := &cuts[l.id.Partition]
		e := l.Ends()
		want := Ends{LogEnd: min(c.End, 12), Durable: min(c.End, 12), Written: min(c.End, 12)}
		if c.Reset {
			want.LogStart = c.End
		}
		switch {
		case l.Offline() != nil:
			return l.Offline()
		case e == want && c.End >= 12:
		case e == want:
			cut++
		case crashed && c.Err != nil && e == Ends{Durable: 12, Written: 12, LogEnd: 12}:
			kept++
		default:
			return fmt.Errorf("%s is %+v after a truncation to %d: %w", l, e, c.End, c.Err)
		}
		if _, err := trueProducers(l); err != nil && !c.Reset {
			return err
		}
	}
	if cut > 0 && kept > 0 {
		return fmt.Errorf("%d logs were cut and %d were not, but one checkpoint has all", cut, kept)
	}
	return nil
}
