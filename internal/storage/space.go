package storage

import (
	"fmt"
	"math"
	"strings"

	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// Space asks the file system of the directory for the bytes that may still be
// written to it, and for its size.
func (d *Dir) Space() (available, total int64, err error) {
	s, err := d.spaces()
	if err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", d.path, err)
	}
	return s.free, s.total, nil
}

// spaces is what the file systems of a directory say. apart: the journal is on
// another one than the logs.
type spaces struct {
	free, total, journalFree, journalTotal int64
	apart                                  bool
}

func (d *Dir) spaces() (s spaces, err error) {
	free, total, err := d.opt.FS.Free(d.path)
	if err != nil {
		return s, err
	}
	s.free, s.total = clampBytes(free), clampBytes(total)
	s.journalFree, s.journalTotal = s.free, s.total
	if strings.HasPrefix(d.jpath+"/", d.path+"/") {
		return s, nil
	}
	if free, total, err = d.opt.FS.Free(d.jpath); err != nil {
		return s, err
	}
	s.journalFree, s.journalTotal = clampBytes(free), clampBytes(total)
	// Of one that is written to meanwhile the answers differ: what the journal's says
	// lies between two of the logs' then.
	if free, _, err = d.opt.FS.Free(d.path); err != nil {
		return s, err
	}
	least, most := min(s.free, clampBytes(free)), max(s.free, clampBytes(free))
	s.apart = s.journalTotal != s.total || s.journalFree < least || s.journalFree > most
	return s, nil
}

func clampBytes(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// journalOptions returns how the directory's journal is opened, in the sizes that are set or follow
// from the disk. Where the disk doesn't say how large it is, it is taken for large.
func (d *Dir) journalOptions() journal.Options {
	sizes := diskguard.LargeDisk
	if s, err := d.spaces(); err == nil {
		sizes = diskguard.SizesFor(s.journalTotal, s.apart)
	}
	if n := d.opt.JournalFileSize; n > 0 {
		sizes = diskguard.JournalSizes{File: n, All: max(sizes.All, 4*n)}
	}
	if n := d.opt.JournalBytes; n > 0 {
		sizes.All = n
	}
	d.sizes = sizes
	return journal.Options{FS: d.opt.FS, Dir: d.jpath, ID: d.ident.Journal, FileSize: sizes.File, MaxBytes: sizes.All}
}
