package storage

import "slices"

// few compares what the directory finds by events with all of its logs.
func (w *world) few() {
	d := w.dir
	if d == nil {
		return
	}
	w.found("faulty", (*Log).faulty, d.Faulty)
	w.found("unstable", (*Log).isUnstable, d.Unstable)
	logs, size := d.SizeLimits()
	for _, l := range d.Logs() {
		if c := l.cfg.Load().Cleanup; c.Delete && c.RetentionTime < 0 && c.RetentionBytes >= 0 {
			logs, size = logs-1, size-c.RetentionBytes
		}
	}
	if logs != 0 || size != 0 {
		failf("the limits of %d logs, and %d bytes of them, are wrong", logs, size)
	}
}

// found checks that find finds each log that has a property, and no log of another directory. Other
// goroutines may change a log meanwhile, but not several times in a row.
func (w *world) found(what string, has func(*Log) bool, find func() []*Log) {
	for _, l := range find() {
		if !slices.Contains(w.dir.Logs(), l) {
			failf("%s is %s, and is not in the directory: %s", l, what, l.state())
		}
	}
	for _, l := range w.dir.Logs() {
		for try := 1; has(l) && !slices.Contains(find(), l) && has(l); try++ {
			if try == 10 {
				failf("%s is %s, and is not found: %s", l, what, l.state())
			}
		}
	}
}
