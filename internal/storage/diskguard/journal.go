package diskguard

// JournalSizes are the size of a journal file and the bound of all of them, in bytes.
type JournalSizes struct{ File, All int64 }

const (
	journalFileMax, journalFileMin = 64 << 20, 2 << 20
	journalMax, journalMin         = 1 << 30, 16 << 20
)

// LargeDisk are the sizes on a disk that does not report its size.
var LargeDisk = JournalSizes{File: journalFileMax, All: journalMax}

// SizesFor returns the sizes on a file system of total bytes: an eighth of one that the logs
// are on too, half of the journal's own. On a small disk a journal of the usual size would
// leave no room for logs. A small journal is swept more often.
func SizesFor(total int64, apart bool) JournalSizes {
	all := total / 8
	if apart {
		all = total / 2
	}
	all = min(max(all, journalMin), journalMax)
	return JournalSizes{File: min(max(all/8, journalFileMin), journalFileMax), All: all}
}
