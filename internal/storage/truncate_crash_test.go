package storage

import (
	"fmt"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/vfs/crashfs"
)

// TestFault01PowerLossInATruncation kills the process or cuts the power at every call of a run in
// which a log is cut twice, and other batches follow where segments began before. After a restart,
// no producer file is of an earlier history.
func TestFault01PowerLossInATruncation(t *testing.T) {
	for call := 1; ; call++ {
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
