package storage

import "github.com/chronik-io/chronik/internal/storage/journal"

// journalSizes are the size of a journal file and the bound of all of them, in bytes.
type journalSizes struct{ file, all int64 }

const (
	journalFileMax, journalFileMin = 64 << 20, 2 << 20
	journalMax, journalMin         = 1 << 30, 16 << 20
)

// sizesFor returns the sizes on a file system of total bytes: of one that the logs
// are on too an eighth, of the journal's own a half. On a small disk a journal of the usual
// size would leave no room for logs. A small journal is swept more often.
func sizesFor(total int64, apart bool) journalSizes {
	all := total / 8
	if apart {
		all = total / 2
	}
	all = min(max(all, journalMin), journalMax)
	return journalSizes{file: min(max(all/8, journalFileMin), journalFileMax), all: all}
}

// journalOptions opens the directory's journal, in the sizes that are set or follow
// from the disk. Where the disk doesn't say how large it is, it is taken for large.
func (d *Dir) journalOptions() journal.Options {
	sizes := journalSizes{file: journalFileMax, all: journalMax}
	if s, err := d.spaces(); err == nil {
		sizes = sizesFor(s.journalTotal, s.apart)
	}
	if n := d.opt.JournalFileSize; n > 0 {
		sizes = journalSizes{file: n, all: max(sizes.all, 4*n)}
	}
	if n := d.opt.JournalBytes; n > 0 {
		sizes.all = n
	}
	d.sizes = sizes
	return journal.Options{FS: d.opt.FS, Dir: d.jpath, ID: d.ident.Journal, FileSize: sizes.file, MaxBytes: sizes.all}
}
