package removed

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// invariant is the removal of an invariant of docs/invariants.md.
type invariant struct {
	of string // its number
	rule
}

// Each invariant is removed once at least. Those of storage, replication and coordinators have
// further rules, which the tag breakrules removes.
var invariants = []invariant{
	{"I1", rule{"a request is answered before the one that arrived before it", "network/queue.go",
		"\t} else {\n\t\tq.newest.next = r\n\t}\n\tq.newest = r\n",
		"\t\tq.newest = r\n\t} else {\n\t\tr.next, q.oldest = q.oldest, r\n\t}\n", "TestI1ResponseOrder"}},
	{"I2", rule{"the acknowledgement end of a profile that syncs is the log end", "storage/log_ends.go",
		"return e.Durable\n\t}\n\treturn e", "return e.LogEnd\n\t}\n\treturn e", "TestI2NoEarlyAck"}},
	{"I3", rule{"a refused batch uses an offset", "storage/commit.go",
		"err != nil || a.Duplicate {\n", "err != nil || a.Duplicate {\n\t\t\tif err != nil {\n\t\t\t\tl.logEnd.Add(1)\n\t\t\t}\n",
		"TestI3RefusedBatchesLeaveNoHole"}},
	{"I4", rule{"the written end stays below the durable one", "storage/log_ends.go",
		"e.Written = max(x.written.Load(), e.Durable)", "e.Written = x.written.Load()", "TestI4EndsAreOrdered"}},
	{"I5", rule{"a journal file is synced again after a sync failed", "storage/journal/writer.go",
		"if f.err != nil {\n\t\treturn fmt.Errorf(\"%s: %w: %w\"", "if false {\n\t\treturn fmt.Errorf(\"%s: %w: %w\"",
		"TestI5AFailedSyncKillsTheFile"}},
	{"I5", rule{"a dead journal file is written", "storage/journal/file.go",
		"\t\ts.err = s.f.refused()\n", "\t\ts.err = nil\n", "TestI5AFailedSyncOfThePreparerIsHeardAtOnce"}},
	{"I5", rule{"the writer does not hear that the preparer's sync failed", "storage/journal/await.go",
		" || j.group.file.dead():", ":", "TestI5AFailedSyncOfThePreparerIsHeardAtOnce"}},
	{"I5", rule{"the copy of a moved segment is synced again after a sync failed", "storage/move_copy.go",
		"c == nil || c.failed || ", "c == nil || ", "TestI5AFaultAtEveryCallOfAMove"}},
	{"I5", rule{"lines of the audit log that a sync has not written stay in the file", "audit/file.go",
		"	x.size = x.synced\n", "	_ = x.synced\n", "TestI5FileThatIsNotSynced"}},
	{"I5", rule{"a segment whose sync failed stays in use", "storage/segment/segment.go",
		"		s.err.CompareAndSwap(nil, &err)\n", "", "TestAnyFailedCallFailsTheSegment"}},
	{"I5", rule{"the copy of a tail is not synced", "inspect/tails.go",
		"err = f.Datasync()", "err = nil", "TestI5AFaultAtEveryCallOfARepair"}},
	{"I6", rule{"recovery serves replayed records that are not synced", "storage/recover.go",
		"return l.syncBy((*segment.Segment).SyncBatches)", "return l.syncBy(func(*segment.Segment) error { return nil })",
		"TestI6RecoverySyncsWhatItKeeps"}},
	{"I7", rule{"the name of a new log's directory is not synced", "storage/create.go",
		"if err := d.opt.FS.SyncDir(d.path); err != nil {", "if err := error(nil); err != nil {", "TestI7NamesAreDurableFirst"}},
	{"I7", rule{"a repair trusts names that an earlier one did not make durable", "inspect/repair.go",
		"cmp.Or(r.syncNames(), ctx.Err())", "ctx.Err()", "inspect.TestI5AFaultAtEveryCallOfARepair"}},
	{"I8", rule{"a stored batch has the broker's time whatever the topic says", "record/accept.go",
		"\tif r.LogAppendTime {\n", "\tif r.LogAppendTime || true {\n", "broker.TestI8BytesAreTheClients"}},
	{"I9", rule{"a log accepts appends of any leader epoch", "storage/accept.go",
		"if a.LeaderEpoch == f.epoch && f.role", "if f.role", "TestI9AppendOfAnEndedEpochIsRefused"}},
	{"I10", rule{"a follower joins by records that it has only written", "replica/progress/leader.go",
		"if l.written && (", "if l.written || true || (", "TestI10JoinersHaveAllThatWasCommitted"}},
	{"I11", rule{"a log knows four batches of a producer", "storage/producers/producers.go",
		"const Window = 5", "const Window = 4", "storage.TestI11DuplicatesAreKnownAfterACrash"}},
	{"I12", rule{"a transaction is committed although a partition lost records", "coordinator/txn/end.go",
		"e.Commit && s.lossy(t)\n", "e.Commit && s.lossy(t) && false\n", "TestI12ACommitNeedsAllRecordsSinceTheAdd"}},
	{"I13", rule{"requests are read beyond their budget", "bufpool/budget.go",
		"if b.waiting[b.kind(n)].first != nil || !b.fits(n) {", "if b.waiting[b.kind(n)].first != nil {",
		"network.TestI13ProduceBudgetStopsProducersOnly"}},
	{"I13", rule{"small requests wait for memory behind large ones", "bufpool/budget.go",
		"b.few = min(few, b.share)", "b.few = 0", "network.TestSmallRequestsDoNotWaitForLargeOnes"}},
	{"I13", rule{"timers that are due together make one append, however large", "coordinator/shard.go",
		"if s.late = s.overfull(); s.late {", "if s.late = false; s.late {", "TestTimersThatAreDueTogetherFitAppends"}},
	{"I14", rule{"a flush holds the lock of the queue", "storage/flush.go",
		"func (l *Log) flushLocked() error {\n", "func (l *Log) flushLocked() error {\n\tl.queueMu.Lock()\n\tdefer l.queueMu.Unlock()\n",
		"TestI14AFlushHoldsNoLock"}},
	{"I15", rule{"a buffer is given to another owner while one still has a reference", "bufpool/buffer.go",
		"case n == 0:", "case n >= 0:", "TestI15ABufferReturnsWithItsLastReference"}},
	{"I16", rule{"a new image changes an earlier one", "metadata/shards.go",
		"e.next[i], e.own[i] = fresh, true", "if e.next[i] == nil {\n\t\t\te.next[i] = fresh\n\t\t}\n\t\te.own[i] = true",
		"TestI16ImagesAreReplacedAndNeverChange"}},
	{"I16", rule{"an answer takes each topic from the latest image", "broker/metadata.go",
		"m.find(acl.Describe, img, want", "m.find(acl.Describe, b.image(), want", "TestI16AnAnswerShowsOneImage"}},
	{"I17", rule{"restored metadata continues with the next leader epoch", "controller/recover.go",
		"p.LeaderEpoch+gap, p.PartitionEpoch+gap\n", "p.LeaderEpoch+1, p.PartitionEpoch+gap\n", "TestRecoveredMetadataTrustNoISR"}},
	{"I18", rule{"a cluster of few voters keeps no copy of its metadata", "datadir/copy.go",
		"len(voters) < enoughVoters &&", "len(voters) < enoughVoters && false &&", "daemon.TestTheMetadataHasACopy"}},
	{"I19", rule{"work that takes long does not count against the places", "share/share.go",
		"\t\ts.free--\n", "", "TestBusyClassesLeaveHalfOfTheProcessors"}},
	{"I20", rule{"a waiting request says only that its handler has it", "network/waits.go",
		"list = w.Steps(about, nil)", "_ = about", "TestRequestsSayWhereTheyWait"}},
	{"I21", rule{"an address that has most of the places keeps them", "security/origin/crowd.go",
		"if most > own+1 {", "if false && most > own {", "TestWhoYields"}},
	{"I22", rule{"a user of the machine reads the admin port where clients have rights", "admin/guard.go",
		"return !g.Private && (", "return (", "TestAUserOfTheMachineIsNotTheOperator"}},
	{"I23", rule{"refusals are in the same file as changes", "audit/audit.go",
		"{s.Decisions, s.Sessions, s.Changes}[c]", "{s.Decisions, s.Decisions, s.Decisions}[c]", "TestAFloodOverwritesNoChangeAndNoLogin"}},
	{"I24", rule{"findings of another broker that were heard long ago count as present", "health/cluster.go",
		"&& now.Sub(h.At) < FreshFor", "", "TestTheReportOfTheCluster"}},
	{"I25", rule{"an acknowledgement of a share group is answered before it is stored", "shareleader/write.go",
		"case seq == 0 || p.l.opt.Broken.Has(AnswerEarly):", "case seq >= 0:", "TestHistory01AnAnswerWaitsUntilItIsStored"}},
	{"S1", rule{"a listener with logins serves any request", "network/login.go",
		"case !isLogin(h.Key) && !c.isLink(h):", "case false:", "TestNothingIsServedBeforeTheLogin"}},
	{"S2", rule{"a client asks for versions as often as it likes before its login", "network/login.go",
		"c.login.versions++; c.login.versions > maxVersionRequests {", "c.login.versions++; false {", "TestBoundsBeforeTheLogin"}},
	{"S3", rule{"a login of an unknown user fails at its first message", "login/scram.go",
		"s.logins.credential(user, m)\n", "s.logins.credential(user, m)\n\tif !s.exists {\n\t\treturn scram.StoredCredentials{}, errTooLong\n\t}\n",
		"TestFailuresLookAlike"}},
	{"S4", rule{"a session outlives its user", "login/sessions.go",
		"if x.stale(image) {", "if x.stale(image) && false {", "TestSessionsEndWithTheirUser"}},
	{"S5", rule{"an API that names no rights is served", "broker/authorize.go",
		"} else if !l.asks.declared() {", "} else if false {", "TestAnAPIThatSaysNothingIsRefused"}},
	{"S6", rule{"a rule that allows wins", "security/acl/subject.go",
		"return all.allow &^ all.deny\n", "return all.allow\n", "TestTrickyRulesMatchKafka"}},
	{"S7", rule{"a list of transactions has those that the client may not describe", "broker/list_transactions.go",
		"return !m.may(acl.Describe, acl.TransactionalID, d.ID) })", "return !m.may(acl.Describe, acl.TransactionalID, d.ID) && false })",
		"TestListsHaveVisibleEntriesOnly"}},
	{"S8", rule{"a fetch that waits keeps the rights with which it came", "broker/fetch_read.go",
		"if now.same(rd.may) {", "if true || now.same(rd.may) {", "TestAWaitingFetchAsksAgain"}},
	{"S9", rule{"a format verb prints a secret", "security/secret/secret.go",
		"func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }",
		"func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write(s.Bytes()) }", "TestNoWayOfPrintingShowsASecret"}},
	{"S10", rule{"a certificate that cannot be read is left out of its file", "security/certs/load.go",
		"\tif len(all) < want {\n", "\tif len(all) < want && false {\n", "TestAFileThatIsCut"}},
	{"S11", rule{"a client makes names of any length last", "protocol/guard.go",
		"if len(s) > MaxName && ", "if len(s) > MaxName && false && ", "TestNamesAreBounded"}},
	{"S12", rule{"a call of a coordinator computes until its end", "coordinator/calls.go",
		"|| time.Since(t.began) < slice {", "|| time.Since(t.began) < 1000*time.Hour {", "TestLongCallsLeaveOthersTheirTurn"}},
	{"S13", rule{"a scrape has all names of groups", "metrics/groups.go",
		"names > MaxLagNames {", "names > 1000*MaxLagNames {", "TestAScrapeIsBoundedInBytes"}},
	{"S14", rule{"committed offsets use as much memory as clients want", "coordinator/group/memory.go",
		"case !s.cfg.MemberMemory.AllowsKept(s.memory, c.memory):", "case false:", "TestOffsetsCountAgainstTheBudget"}},
	{"S14", rule{"open transactions use as much memory as clients want", "coordinator/txn/add.go",
		"case !budget.Allows(s.memory, int(weight(more))):", "case false:", "TestOpenTransactionsCountAgainstABudget"}},
	{"S15", rule{"a large answer does not wait for the one before it", "network/outgoing.go",
		"if held <= o.size && (", "if held <= o.size || (", "TestAnswersOfReservedSizeAreAlone"}},
	{"S16", rule{"a request in debt is read at once", "network/turn.go",
		"if wait := t.Wait(); wait > 0 {", "if wait := t.Wait(); wait > 0 && false {", "TestARequestInDebtWaitsForItsTurn"}},
}

// invariantRow matches a row of docs/invariants.md: its number, and the tests that it names.
var invariantRow = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) [^|]*\|[^|]*\|[^|]*\|([^|]*)\|$`)

// unremoved returns the rows of the page whose invariant has no removal that one of the row's tests
// finds, and the removals of no row.
func unremoved(page string, all []invariant) (faults []string) {
	rows := map[string]string{}
	for _, m := range invariantRow.FindAllStringSubmatch(page, -1) {
		rows[m[1]] = m[2]
		found := slices.ContainsFunc(all, func(i invariant) bool {
			dir, name := i.from()
			return i.of == m[1] && strings.Contains(m[2], "`"+dir+"."+name+"`")
		})
		if !found {
			faults = append(faults, fmt.Sprintf("%s has no removal that a test of its row finds", m[1]))
		}
	}
	for _, i := range all {
		if rows[i.of] == "" {
			faults = append(faults, "there is no "+i.of)
		}
	}
	return faults
}

// Each invariant has a removal, and its row names the test that finds it.
func TestEveryInvariantIsRemoved(t *testing.T) {
	page, err := os.ReadFile("../../../docs/invariants.md")
	must.OK(t, err)
	if n := len(invariantRow.FindAllString(string(page), -1)); n < 30 {
		t.Fatalf("docs/invariants.md has %d rows: does the pattern still match?", n)
	}
	for _, fault := range unremoved(string(page), invariants) {
		t.Errorf("docs/invariants.md: %s", fault)
	}
}

func TestAnInvariantWithoutARemovalIsFound(t *testing.T) {
	const page = "| I1 order | answers | `a.go` | `network.TestOrder`, `network.TestOther` |\n"
	of := func(number, test string) []invariant {
		return []invariant{{number, rule{file: "network/queue.go", test: test}}}
	}
	for _, c := range []struct {
		all  []invariant
		want string
	}{
		{of("I1", "TestOther"), ""},
		{of("I1", "network.TestOrder"), ""},
		{of("I1", "TestElse"), "I1 has no removal that a test of its row finds"},
		{nil, "I1 has no removal that a test of its row finds"},
		{append(of("I1", "TestOrder"), of("I2", "TestOrder")...), "there is no I2"},
	} {
		if got := strings.Join(unremoved(page, c.all), "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
