//go:build breakrules

package storage

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// liar is a file system that reports success for some syncs without doing them.
type liar struct {
	vfs.FS
	skips func(call, name string) bool
}

type lyingFile struct {
	vfs.File
	fs liar
}

func (l liar) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return lyingFile{f, l}, nil
}

// Open implements vfs.FS.
func (l liar) Open(name string) (vfs.File, error) { return l.file(l.FS.Open(name)) }

// Create implements vfs.FS.
func (l liar) Create(name string) (vfs.File, error) { return l.file(l.FS.Create(name)) }

// SyncDir implements vfs.FS.
func (l liar) SyncDir(dir string) error {
	if l.skips("syncdir", dir) {
		_, err := l.FS.Stat(dir)
		return err
	}
	return l.FS.SyncDir(dir)
}

// Datasync implements vfs.File.
func (f lyingFile) Datasync() error {
	if f.fs.skips("datasync", f.Name()) {
		_, err := f.Size()
		return err
	}
	return f.File.Datasync()
}

// lie returns a liar for one call on files or directories whose names match a pattern.
func lie(call, pattern string) func(vfs.FS) vfs.FS {
	return func(fs vfs.FS) vfs.FS {
		return liar{fs, func(c, name string) bool {
			if !strings.Contains(pattern, "/") {
				name = path.Base(name)
			}
			ok, _ := path.Match(pattern, name)
			return ok && c == call
		}}
	}
}

// rules are the durability rules of docs/journal.md. Each is removed once.
var rules = map[string]modelConfig{
	"the journal is synced before a notification": {wrap: lie("datasync", "*.journal")},
	"names of journal files are synced":           {wrap: lie("syncdir", "journal")},
	"names of segments are synced":                {wrap: lie("syncdir", "*-3")},
	"segments are synced":                         {wrap: lie("datasync", "/d/*-3/*.log")},
	"the checkpoint is synced":                    {wrap: lie("datasync", "/d/checkpoint/*")},
	"the checkpoint's name is synced":             {wrap: lie("syncdir", "checkpoint")},
	"a checkpoint's copy is synced":               {wrap: lie("datasync", "/d/checkpoint.copy/*")},

	"a segment gets only records that are durable in the journal": {broken: without(notDurable)},
	"the recovery point claims only synced records":               {broken: without(earlyLSN)},
	"a journal file is released after the checkpoint":             {broken: without(earlyRelease), rare: true},
	"a truncation is committed":                                   {broken: without(skipCutCommit)},
	"a log start is committed":                                    {broken: without(skipStartCommit)},
	"producers outlive their records":                             {broken: without(forgetProducers), rare: true},
	"a sweep commits the logs that moved":                         {broken: without(skipMoved)},
	"a swap of segments is committed":                             {broken: without(skipSwapCommit)},
	"a start completes a swap":                                    {broken: without(skipSwapEntry), rare: true},
	"a swap ends after its names are synced":                      {broken: without(skipSwapSync)},
	"a checkpoint names quarantined frames":                       {broken: without(skipQuarantineEntry), rare: true},
	"names on the disk are made of ids":                           {broken: without(topicNames)},
	"a recovery passes on only frames that a log needs":           {broken: broken{journal: breakrules.Without(journal.BelowRedo)}},
	"headers are compared with what the log knows":                {broken: without(trustHeaders)},
	"a batch that does not fit is not skipped":                    {read: readSkipping},
	"a lookup sees records that are flushed during it":            {findTime: findTimeForgetful},
	"the records of a failed segment are replayed":                {broken: without(skipReplay), rare: true},
}

// readSkipping is Log.Read, except that a batch that does not fit is treated as missing: the read
// continues with the next segment, or with memory.
func readSkipping(l *Log, at, limit int64, max int, one bool) (s Slice, err error) {
	for {
		s, err = l.Read(at, limit, max, one)
		if err != nil || s.Size > 0 || at >= limit {
			return s, err
		}
		l.mu.RLock()
		next, _ := l.tail.start()
		for i := len(l.segments) - 1; i >= 0 && l.segments[i].Base() > at; i-- {
			next = l.segments[i].Base()
		}
		l.mu.RUnlock()
		if next <= at {
			return s, nil
		}
		at = next
	}
}

// findTimeForgetful is Log.FindTime, except that it misses records that are flushed while it
// searches the segments.
func findTimeForgetful(l *Log, ts, limit int64) (Timestamp, error) {
	flushed := func() int64 {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return l.flushed
	}
	before := flushed()
	if t, err := l.FindTime(ts, min(limit, before)); err != nil || t.Offset >= 0 {
		return t, err
	}
	now := flushed()
	t, err := l.FindTime(ts, limit)
	if err == nil && t.Offset >= before && t.Offset < now {
		return Timestamp{Offset: -1, Time: -1, Epoch: -1}, nil
	}
	return t, err
}

// without returns what removes a rule.
func without(r rule) broken { return broken{rules: breakrules.Without(r)} }

// If any one of the rules is removed, the model must detect a fault. Rules for which that takes
// thousands of histories are tested only if CHRONIK_MODEL_RUNS is set.
func TestModelDetectsEveryRemovedRule(t *testing.T) {
	if bufpool.Invariants {
		t.Skip("without its rules the code uses memory that it has released, which this build detects before the model does")
	}
	for name, cfg := range rules {
		t.Run(name, func(t *testing.T) {
			if cfg.rare && os.Getenv("CHRONIK_MODEL_RUNS") == "" {
				t.Skip("takes long")
			}
			t.Parallel()
			cfg.steps, cfg.noReader = 120, cfg.read == nil && cfg.findTime == nil
			for seed := uint64(1); seed < 3000; seed++ {
				cfg.faults = seed%2 == 0
				if err := runModel(seed, cfg); err != nil {
					t.Logf("found: %v", err)
					return
				}
			}
			t.Error("nothing went wrong without it")
		})
	}
}

// removedFrom is a rule, and a call of a script shortly before the one that has shown its absence.
type removedFrom struct {
	removed broken
	from    int
}

// eachIsNeeded requires that a script detects a fault without each rule. everywhere runs it with a
// crash at each call from one on.
func eachIsNeeded(t *testing.T, all map[string]removedFrom, everywhere func(removed broken, from int) error) {
	t.Helper()
	for name, x := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := everywhere(x.removed, x.from)
			if err == nil {
				err = everywhere(x.removed, 1)
			}
			if err == nil {
				t.Fatal("nothing went wrong without it")
			}
			t.Logf("found: %v", err)
		})
	}
}

// If any one of the rules of a swap is removed, the script must detect a fault.
func TestFault21DetectsEveryRemovedRule(t *testing.T) {
	eachIsNeeded(t, map[string]removedFrom{
		"a swap is committed":                     {without(skipSwapCommit), 122},
		"a swap ends after its names are synced":  {without(skipSwapSync), 186},
		"a segment is whole before it has a name": {without(skipCompactedSync), 107},
		"a start completes a swap":                {without(skipSwapEntry), 182},
	}, func(removed broken, from int) error { return crashEverywhere("sync", removed, from) })
}

// If any one of the rules of a move is removed, the script must detect a fault.
func TestEveryRuleOfAMoveIsNeeded(t *testing.T) {
	eachIsNeeded(t, map[string]removedFrom{
		"a copy is synced before the move is committed": {without(skipMoveSync), 193},
		"a move is committed":                           {without(skipMoveCommit), 199},
		"a start completes a move":                      {without(skipMoveMark), 198},
	}, func(removed broken, from int) error { return moveEverywhere(removed, from, 1) })
}

// Each of these rules has a test of its own, which must fail without it.
func TestEveryRuleHasItsTest(t *testing.T) {
	for _, b := range []broken{without(skipCheckpointLSN), {journal: breakrules.Without(journal.ReuseLSNs)}} {
		if lostLSNs(t, b) == "" {
			t.Errorf("lost LSNs: nothing went wrong with %+v", b)
		}
	}
	if afterRefusedReplay(t, without(skipQuarantineEntry)) == 5 {
		t.Error("no checkpoint needs to name quarantined frames")
	}
	if knowsStoredProducers(t, without(liveProducers)) {
		t.Error("a checkpoint may store the producers of the log's end")
	}
	if gone, named := lostBeforeMark(t, without(lateMark)); !gone || named {
		t.Errorf("a profile applied before its mark: a record was lost %v, the log was named %v", gone, named)
	}
	if during, _ := lossyAfterFailedSync(t, without(trustFailedSync)); during {
		t.Error("a failed sync was known although it was not stored")
	}
	if h := highAfterOtherRecords(t, without(anyHigh)); h <= 5 {
		t.Errorf("a saved high watermark of other records was refused: it is %d", h)
	}
	if knowsGoneProducers(t, without(forgetProducers)) {
		t.Error("producers may be forgotten with their records")
	}
	if got := stableAfterRestart(t, without(liveStable)); got == "1 1 true" {
		t.Error("a marker may count before it is committed")
	}
	if openInCheckpoint(t, without(aheadTransactions)) {
		t.Error("a checkpoint may count markers above its recovery point")
	}
	if truncatedOpen(t, without(unsyncedSnapshots)) == 0 {
		t.Error("a producer snapshot need not be synced")
	}
	if truncatedWithoutSnapshot(t, without(skipKeptSnapshot)) == 0 {
		t.Error("the first segment may go without the producer snapshot of the next")
	}
	if err := damagedIndex(t, without(uncountedIndex), removeIndex); err == nil {
		t.Error("an index may be taken for what is there")
	} else {
		t.Logf("found: %v", err)
	}
	disk := crashfs.New(1)
	lazy := liar{disk, func(call, name string) bool { return strings.HasSuffix(name, segment.AbortedSuffix) }}
	if err := indexAfterPowerLoss(t, disk, lazy, crashfs.DropUnsynced); err == nil {
		t.Error("an index need not be synced")
	}
	if list := abortedDuringASync(t, without(segmentsFirst), false); slices.Equal(list, abortedThrice) {
		t.Error("the memory may be read after the segments")
	}
	if list := abortedDuringASync(t, without(abortedTwice), true); slices.Equal(list, abortedThrice) {
		t.Error("an aborted transaction is in the segments or in the memory")
	}
	if retainedOpen(t, without(retainOpen)) == 3 {
		t.Error("retention may remove open transactions")
	}
	for n := 0; afterASwap(t, without(edgesOnly), time.Second); n++ { // a flush may wait for the end of the swap
		if n == 10 {
			t.Fatal("a change of a log's state need not wake what frees memory")
		}
	}
	if _, _, a, repair := memoryOfAFailedLog(t, without(pinMemory)); answered(a, time.Second) {
		t.Errorf("an append is answered with %v although a failed log holds the memory", a.Err)
	} else {
		repair()
	}
	if markerInAFullMemory(t, without(markersWait)) {
		t.Error("a marker need not overtake the records of clients")
	}
	if chunks, _ := tinySegments(t, 1, "sync", "time", without(unboundedDebt)); chunks <= debtMax+1 {
		t.Error("a log with many segments to write waited")
	}
	if sweepAfterADeletion(t, without(skipTombstones)) == 1 {
		t.Error("the redo pointer may pass a deletion that is not committed")
	}
	if cutCompacted(t, 60, true, without(keepCompacted)) == "" {
		t.Error("a log may truncate what its compaction relied on")
	}
	if damageAfterARestart(t, without(forgetDamage)) > 0 {
		t.Error("a checkpoint without the damage has it")
	}
	for name, wrong := range map[string]string{
		"an epoch that went back is found":             copyOfChanged(t, 8*(magicAt-1)+3, without(trustHeaders)),
		"an epoch that went ahead is found":            copyOfChanged(t, 8*epochAt+6, without(trustHeaders)),
		"a frame follows the log end":                  losesFrame(t, without(skipPrevEnd)),
		"appends of another epoch are fenced":          outlivesRole(t, false, without(skipFence)),
		"appends of a leader's earlier role":           outlivesRole(t, true, without(skipFence)),
		"a start is of the present leader":             outlivesLeader(t, without(moveAnyStart)),
		"an epoch ends when its records are lost":      takesBack(t, without(skipHold)),
		"a follower deletes only what its leader does": deletesAsFollower(t, without(skipLeader)),
		"epochs without a record are forgotten":        epochComesBack(t, without(keepEpochs)),
	} {
		if wrong == "" {
			t.Errorf("without the rule that %s nothing went wrong", name)
		}
	}
	for seed := uint64(0); copyAndCrash(t, seed, without(skipGaps)) == ""; seed++ {
		if seed == 40 {
			t.Fatal("the journal may forget the epochs of gaps")
		}
	}
	if framesOfADeletedLog(t, broken{journal: breakrules.Without(journal.BelowRedo)}) == "" {
		t.Error("a recovery may pass on frames below the redo pointer")
	}
	image, _ := damagedJournal(t)
	d, err := openDir(image, "sync", func(o *Options) { o.broken.journal.Rules = journal.IgnoreDamage })
	if err != nil {
		t.Fatal(err)
	}
	if end := d.Logs()[0].Ends().LogEnd; end != 0 {
		t.Errorf("without the alarm the log ends at %d", end)
	}
	_ = d.Close()
}
