package doctor

import (
	"context"
	"fmt"

	"github.com/chronik-io/chronik/internal/ctl/adminport"
	"github.com/chronik-io/chronik/internal/ctl/cluster"
)

// Where disks are worth a word.
const (
	fullJournal = 0.8 // part of the journal's limit
	slowSync    = 20  // milliseconds of a fdatasync
	enough      = 100 // groups, for a mean that says something
	lonely      = 5   // records of a group that hardly shares its sync
)

// disks looks at what the admin port tells of journals and syncs.
func (x *examination) disks(ctx context.Context) {
	if x.port == nil {
		return
	}
	dirs, err := x.port.Dirs(ctx)
	if err != nil {
		return // health says it where the port was named
	}
	x.Looked("journals")
	for _, d := range dirs {
		x.judgeJournal(d)
	}
	profiles, err := x.port.Profiles(ctx)
	if err != nil {
		return
	}
	x.Looked("times of fdatasync")
	for _, g := range profiles.Groups {
		x.judgeSyncs(g)
	}
}

func (x *examination) judgeJournal(d adminport.Dir) {
	if d.JournalLimitBytes <= 0 || float64(d.JournalBytes) < fullJournal*float64(d.JournalLimitBytes) {
		return
	}
	x.Add(cluster.Warn, "log directory "+d.Path, fmt.Sprintf("its journal holds %d of %d bytes: at the limit producers wait until segments are written", d.JournalBytes, d.JournalLimitBytes),
		"the disk of the segments does not keep up: give it less, or faster disks")
}

func (x *examination) judgeSyncs(g adminport.Groups) {
	if g.Count < enough || g.MeanSyncMs == nil || *g.MeanSyncMs < slowSync {
		return
	}
	problem, remedy := fmt.Sprintf("one fdatasync takes %.0f ms on average", *g.MeanSyncMs), "put the journal on a faster disk (journal.dirs)"
	if g.MeanRecords != nil && *g.MeanRecords < lonely {
		problem += fmt.Sprintf(", and only %.1f records share it", *g.MeanRecords)
		remedy += ", or let more records share a sync: the profile medium or high"
	}
	x.Add(cluster.Warn, "log directory "+g.Dir, problem, remedy)
}
