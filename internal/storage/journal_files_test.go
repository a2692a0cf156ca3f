package storage

import (
	"path"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// Journal files that are removed while the broker uses them are noticed, and the remedy loses
// nothing: an orderly stop writes what only they have to the segments.
func TestRemovedJournalFilesAreMissed(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 2, 100)
	if gone := d.MissingJournalFiles(); len(gone) != 0 {
		t.Fatalf("%q are missing", gone)
	}
	var removed []string
	infos, err := disk.List("/d/journal")
	must(t, err)
	for _, in := range infos {
		if in.Name != JournalIdentityFile {
			must(t, disk.Remove(path.Join("/d/journal", in.Name)))
			removed = append(removed, in.Name)
		}
	}
	gone := d.MissingJournalFiles()
	if len(gone) == 0 || slices.ContainsFunc(gone, func(name string) bool { return !slices.Contains(removed, name) }) {
		t.Fatalf("%q are missing, %q were removed", gone, removed)
	}
	put(t, l, 3, 100)
	end := l.Ends().LogEnd
	must(t, d.Close())
	d = mustOpen(t, disk, "sync")
	defer func() { must(t, d.Close()) }()
	got, err := contentsOf(d.Logs()[0])
	must(t, err)
	if n := d.Logs()[0].Ends().LogEnd; n != end || len(got) != 5 {
		t.Errorf("after the restart the log ends at %d with %d batches, before it ended at %d with 5", n, len(got), end)
	}
	if gone := d.MissingJournalFiles(); len(gone) != 0 {
		t.Errorf("after the restart %q are missing", gone)
	}
}

// A file that is released while the files are examined is not missing: it may be reused or removed.
func TestAReleasedJournalFileIsNotMissed(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	defer func() { must(t, d.Close()) }()
	l := makeLogs(t, d, 1, "sync")[0]
	done, gone := make(chan struct{}), make(chan []string)
	go func() {
		var all []string
		for {
			all = append(all, d.MissingJournalFiles()...)
			select {
			case <-done:
				gone <- all
				return
			default:
			}
		}
	}()
	for range 300 {
		put(t, l, 1, 4000)
	}
	close(done)
	if all := <-gone; len(all) > 0 {
		t.Errorf("%q were missed", all)
	}
}
