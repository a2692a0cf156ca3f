package removed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// rule is a rule, the change of the code that removes it, and the test that fails then.
type rule struct {
	without  string // what happens without it
	file     string // below internal
	old, new string
	test     string // of the package of the file, unless it names another one
}

// rules are those of a cluster.
var rules = []rule{
	{"a registration counts before the broker's records are adjusted", "controller/register.go",
		"if err := r.clean(ctx, q, fence); err != nil {", "if err := error(nil); err != nil {", "TestReturningReplicas"},
	{"a registration continues although the former process became active meanwhile", "controller/register.go",
		"ModRevision: q.Seen}, unchanged(fence)},", "ModRevision: q.Seen}},", "TestARegistrationBeginsAgainAfterAnotherState"},
	{"an older copy of a log directory counts as whole", "controller/register.go",
		"older := q.Dirs[i].Found", "older := false && q.Dirs[i].Found", "TestReturningReplicas"},
	{"a log that may have lost acknowledged records counts as whole", "controller/register.go",
		"slices.Contains(q.Lossy, v.tp) || ", "", "TestReturningReplicas"},
	{"a log that recovery found damaged counts as whole", "controller/register.go",
		"v.tp) || damaged {", "v.tp) || damaged && false {", "TestReturningReplicas"},
	{"a second process with the same node.id registers while the first one is alive", "controller/register.go",
		"case live != 0 && live != q.Member:", "case false:", "TestRefusedRegistrations"},
	{"a process registers although another one has overtaken it", "controller/register.go",
		"case known && former.Epoch != q.Seen, !known && q.Seen != 0:", "case false:", "TestRefusedRegistrations"},
	{"a directory that two brokers have is accepted", "controller/register.go",
		"has && other.ID != q.Broker {", "has && false {", "TestRefusedRegistrations"},
	{"a growth of the ISR does not depend on the registrations of its members", "controller/alter_isr.go",
		"for _, m := range x.Members {", "for _, m := range x.Members[:0] {", "TestAnISRChangeOnAnOldStateIsRefused"},
	{"a decision of the controller does not depend on the state of the brokers that it names", "controller/decide.go",
		"c.txn.If = append(c.txn.If, metadata.Compare{Key: metadata.LivenessKey(b), ModRevision: revision})", "_ = revision",
		"TestADecisionOnAnOldStateIsRefused"},
	{"an unclean election does not depend on the registration whose log was reported", "controller/decide.go",
		"ok && next.Unclean != from.Unclean {", "ok && false {", "TestAnUncleanElectionComparesTheRegistration"},
	{"a heartbeat renews the session although no answer arrives", "controller/liveness.go",
		"x.heard, x.refused, x.runs = is.now, false, is.runs",
		"x.heard, x.proven, x.refused, x.runs = is.now, is.now, false, is.runs", "TestASessionNeedsBothDirections"},
	{"a controller that no quorum confirms grants leases", "controller/liveness.go",
		"min(x.proven, known) + s.timeout", "max(x.proven, known) + s.timeout", "TestALeaseNeedsAConfirmedController"},
	{"a broker has a lease before it has applied its activation", "controller/liveness.go",
		"&& c.revision >= x.since ||", "||", "TestALeaseNeedsTheActivationApplied"},
	{"heartbeats of a former process are accepted", "controller/liveness.go",
		"x == nil || x.incarnation != h.Incarnation", "x == nil", "TestOnlyTheProcessWithTheSessionIsHeard"},
	{"a controller that was paused fences all brokers", "controller/liveness.go",
		"if late && !s.late {", "if false {", "TestAPausedControllerBeginsAgain"},
	{"a placement of a former process is recorded", "controller/partitions.go",
		"if err := c.addOwn(ctx, &txn, broker); err != nil {", "if err := error(nil); err != nil {",
		"TestAPlacementOfAFormerProcessIsRefused"},
	{"of logs that all lost records, one that is shorter than an absent one leads at once", "controller/unclean.go",
		"return !idle || waited >= lossyPatience", "return true || idle", "TestTheLongestOfLossyLogsLeads"},
	{"an unclean election ignores a log that is not reported yet", "controller/unclean.go",
		"if now-l.silent[tp] < lossyPatience {", "if false {", "TestAShorterLogWaitsForASilentOne"},
	{"a leader without followers in sync acknowledges without a lease", "replica/role.go",
		"acks == AcksAll && r.isr > 1 {", "true {", "TestWithoutALeaseOnlyOtherReplicasAcknowledge"},
	{"a leader without a lease tells consumers that records of its successor are lost", "replica/read.go",
		"case !p.env.leaseLive():", "case false:", "TestALeaderWithoutALeaseDoesNotJudgeLaterRecords"},
	{"a leader without a lease tells producers that batches are missing which its successor has", "replica/append.go",
		"if e := p.current(p.role.Load()); e != nil {", "if e := error(nil); e != nil {", "TestALeaderWithoutALeaseDoesNotJudgeSequences"},
	{"a leader that has asked for another one judges records of its successor", "replica/read.go",
		"case p.offered(r):", "case false:", "TestALeaderThatAsksForAnotherOneDoesNotJudgeLaterRecords"},
	{"a replica that is not in sync judges records below its log start", "replica/read.go",
		"if r.leader || r.insync(p.env.self) && p.log.Flaw() == nil {", "if true {", "TestAFollowerServesWhatIsCommitted"},
	{"a leader that is cut off keeps its clients", "replica/lead.go",
		"apart := !lease && p.lead.Unreached()", "apart := !lease && false", "TestALeaderThatIsCutOffSendsClientsAway"},
	{"a leader without a lease changes the ISR", "replica/lead.go",
		"p.lead.Propose(p.env.now(), lease)", "p.lead.Propose(p.env.now(), lease || true)", "TestChangesOfTheISRWaitForALease"},
	{"a restarted replica takes its log end for the high watermark", "replica/partition.go",
		"high, epoch := l.RecoveredHigh()", "_, epoch := l.RecoveredHigh()\n\thigh := l.Ends().LogEnd",
		"TestARestartedFollowerShowsOnlyWhatWasCommitted"},
	{"DeleteRecords is answered when the leader's own log start has moved", "replica/delete_records.go",
		"if low = p.lead.MinLogStart(); low >= own", "if low = own; low >= own", "TestDeletedRecordsStayDeletedWithTheNextLeader"},
	{"DeleteRecords is answered during a freeze", "replica/delete_records.go",
		"low >= own && !p.frozen() {", "low >= own {", "TestADeletionOfRecordsIsNotAnsweredDuringAFreeze"},
	{"high watermarks rise, and appends are answered, during a freeze", "replica/partition.go",
		"\tif p.frozen() {\n\t\tp.mu.Unlock()", "\tif false {\n\t\tp.mu.Unlock()", "TestNothingNewIsVisibleDuringAFreeze"},
	{"a repeated batch is answered during a freeze", "replica/partition.go",
		"if !p.frozen() && a.inner.Next", "if a.inner.Next", "TestADuplicateIsNotAnsweredDuringAFreeze"},
	{"a follower whose log start moves shows a higher high watermark during a freeze", "replica/partition.go",
		"if p.frozen() {\n\t\thigh", "if false {\n\t\thigh", "TestAFollowerShowsNothingNewDuringAFreeze"},
	{"a cut ends at the high watermark", "replica/freeze.go",
		"End: e.Ack,", "End: e.HighWatermark,", "TestACutHasTheCausesOfItsRecords"},
	{"a freeze that has ended is confirmed", "replica/freeze.go",
		"return f.on.Load() && f.latest == id", "return f.latest == id", "TestAFreezeEndsWithoutAThaw"},
	{"a freeze that another one replaced is confirmed", "replica/freeze.go",
		"return f.on.Load() && f.latest == id", "return f.on.Load()", "TestIdsOfFreezesGrow"},
	{"a repeated request for a freeze freezes again", "replica/freeze.go",
		"if id.compare(f.latest) <= 0 {", "if false {", "TestIdsOfFreezesGrow"},
	{"records of the next leader count as those of the cut", "replica/held.go",
		"|| high >= h.End {", "|| high >= 0 {", "TestWhatWasReadIsTheCuts"},
	{"a log counts as that of the cut although it was truncated since", "replica/held.go",
		"if err := h.Kept(h.End); err != nil {", "if err := error(nil); err != nil {", "TestWhatWasReadIsTheCuts"},
	{"a log that a freeze has cut is taken after another freeze", "replica/held.go",
		"h == nil || h.Cut != c", "h == nil", "TestLogsAreHeldForATime"},
	{"a log that nothing takes stays as it was cut", "replica/held.go",
		"f.untaken = time.AfterFunc(holdTime, f.release)", "f.untaken = time.AfterFunc(100*holdTime, f.release)",
		"TestLogsAreHeldForATime"},
	{"records that are deleted during an upload are missing in the snapshot", "storage/retention_start.go",
		"below = min(below, held)\n", "", "archive/writer.TestDeletionsWaitForTheUpload"},
	{"a reader of a hold gets what follows a segment that was removed", "storage/retention_start.go",
		"h.start = max(h.start, end)", "_ = end", "TestALooseHoldNotesWhatIsLost"},
	{"a job waits for a store that hangs", "archive/writer/job.go",
		"time.AfterFunc(stallTime, func() { j.cancel(errStalls) })", "time.AfterFunc(100*stallTime, func() {})",
		"TestAJobThatStallsIsVoid"},
	{"a snapshot counts although a broker was not frozen until its mark", "archive/cut/cut.go",
		"slices.Index(frozen, false); i >= 0 {", "slices.Index(frozen, false); i >= len(frozen) {", "TestAnAttempt"},
	{"a snapshot counts although a leader epoch has changed before its mark", "archive/cut/cut.go",
		"case ok && c.Epoch == p.LeaderEpoch:", "case ok:", "TestCutsThatBelongTogether"},
	{"a snapshot counts although a broker has registered before its mark", "archive/cut/cut.go",
		"!slices.Equal(before, now) {", "len(before) == 0 && len(now) > 0 {", "TestCutsThatBelongTogether"},
	{"a partition that another leader reported counts as new and empty", "archive/cut/cut.go",
		"case !reported[tp] && asked", "case asked", "TestCutsThatBelongTogether"},
	{"a follower that is behind answers OFFSET_OUT_OF_RANGE", "replica/read.go",
		"if !role.leader && r.Offset >= e.LogStart && p.behind(&r, e.HighWatermark) {", "if false {", "TestAFollowerServesWhatIsCommitted"},
	{"a new leader names a latest offset below its epoch's start", "replica/read.go",
		"if limit < r.epochStart && !r.sole {", "if false {", "broker.TestLatestIsNotAvailableBeforeTheEpochsStartCounts"},
	{"a leader truncates a log with an epoch above its own", "replica/progress/follower.go",
		"case f.LastEpoch > l.Epoch:", "case false:", "TestAnswer"},
	{"a coordinator without a lease answers", "coordinator/service/service.go",
		"if !s.current(partition) {", "if false {", "TestWithoutALeaseNothingIsAnswered"},
	{"a majority of the seeds forms a cluster", "membership/bootstrap.go",
		"if len(silent) > 0 {", "if len(silent) > len(answers)/2 {", "TestDecide"},
	{"a node forms a cluster although the metadata of its logs are lost", "membership/bootstrap.go",
		"lost >= 0 {", "lost > len(answers) {", "TestDecide"},
	{"two clusters are formed by seeds that saw different members", "membership/bootstrap.go",
		"a.State.Self.ID != self.Self.ID && a.State.Seen != d.Seen {", "false {", "TestDecide"},
	{"a voter that is active loses its vote", "metadata/raftstore/members.go",
		"case former == n.member || n.silence(former) <= electionTicks*n.opts.Tick:", "case former == n.member:",
		"TestReplaceWaitsForSilence"},
	{"messages of another cluster or generation count", "metadata/raftstore/wire.go",
		"if generation != [16]byte{} && generation != theirs {", "if false {", "TestForeignMessagesAreRefused"},
	{"two brokers that confirm a deletion at the same time leave its tombstone", "controller/deletion.go",
		"txn.If = append(txn.If, unchanged(kv))\n\t\t\treturn nil", "return nil", "TestBrokersConfirmAtTheSameTime"},
	{"a leader that cannot write leads on although another replica can", "controller/election/election.go",
		"d.View.Active(l) && (d.View.Writes(l) || !d.View.Writes(to))", "d.View.Active(l)", "TestDecisions"},
	{"a preferred replica that cannot write is elected", "controller/election/election.go",
		"!d.able(first) || !d.View.Writes(first) {", "!d.able(first) {", "TestDecisions"},
	{"a directory that failed once counts as failed for ever", "controller/states.go",
		"to.Unable, to.Damaged = last.Unable, last.Damaged",
		"to.Unable, to.Damaged = append(state.Unable, last.Unable...), last.Damaged", "TestFailedDirectoriesAndDamagedLogs"},
	{"new partitions are placed on brokers that cannot write", "controller/placement.go",
		"case state.Liveness != metadata.Active || !works:", "case state.Liveness != metadata.Active:",
		"TestNewPartitionsAreWhereTheyCanBeWritten"},
	{"a follower refuses records because of its reserve", "storage/accept.go",
		"if kind == Assigned || kind == Marker {", "if kind == Marker {", "TestAFollowerIgnoresTheReserve"},
	{"a power loss goes unnoticed", "storage/recover_loss.go",
		"d.lossy = !d.clean && (d.boot == unknown || d.boot != c.Boot)", "d.lossy = !d.clean && d.boot == unknown",
		"TestLossesOfWrittenRecordsAreKnown"},
	{"a controller that was replaced changes the metadata", "controller/loop.go",
		"return s.LeaderTxn(ctx, s.term, t)", "return s.LeaderTxn(ctx, s.term+1, t)", "TestADeposedControllerChangesNothing"},
	{"the broker of the only voter is fenced because it stood still", "controller/states.go",
		"if l.opt.Leadership.Sole() {", "if false {", "TestTheBrokerOfTheOnlyVoterIsNotFenced"},
	{"the only voter waits for an election after a change of members", "metadata/raftstore/node.go",
		"err = n.work() // before", "_ = 0 // before", "TestTheOnlyVoterLeadsAtOnceAfterAChangeOfMembers"},
	{"the only voter votes for another member", "metadata/raftstore/node.go",
		"if n.sole != 0 && (m.GetType() == pb.MsgVote", "if false && (m.GetType() == pb.MsgVote", "TestTheOnlyVoterVotesForNobodyElse"},
	{"a batch joins the transaction before", "coordinator/txn/gate/holders.go",
		"(!from.Bumps || who.bumps)", "(!from.Bumps || who.bumps || true)", "TestABatchDoesNotJoinTheTransactionBefore"},
	{"an epoch of restored metadata is resumed", "replica/view.go",
		"max(seen-1, p.found) >= part.LeaderEpoch", "seen-1 >= part.LeaderEpoch", "TestAnEpochOfRestoredMetadataIsNotResumed"},
	{"a damaged leader gives way to a member that cannot lead", "controller/decide.go",
		"return !leads && slices.ContainsFunc(p.ISR, stays)", "return (!leads || true) && slices.ContainsFunc(p.ISR, stays)",
		"TestADamagedLeaderGivesWayToAMemberThatCanLead"},
	{"a directory that did not note its registration counts as an older copy", "controller/register.go",
		" && q.Dirs[i].Finding != known.Finding", "", "TestADirectoryThatDidNotNoteItsRegistrationIsWhole"},
	{"a replaced log is removed after an unclean election", "replica/renew.go",
		"case p.Unclean > a.Epoch:", "case false:", "TestAReplacedLogOutlivesAnUncleanElection"},
	{"a log is replaced although its leader is damaged or fenced", "replica/renew.go",
		"return state.Liveness != metadata.Fenced && !slices.Contains(state.Damaged, w.tp())",
		"return state.Liveness != metadata.Fenced || slices.Contains(state.Damaged, w.tp()) || true",
		"TestALogStaysIfTheLeaderHasNoWholeOne"},
	{"a repaired log counts as whole before it leads", "storage/recover.go",
		"if l.partial.Store(lc.Partial); lc.Partial {", "if false {", "replica.TestARepairedLogIsDamagedUntilItLeads"},
	{"a leader is cut off as soon as one sweep finds a follower away", "replica/lead.go",
		"cut := apart && p.apart", "cut := apart", "TestALeaderThatIsCutOffSendsClientsAway"},
	{"a follower serves what an unclean election may have discarded", "replica/read.go",
		" || p.voided(r)", "", "TestARecordThatAnUncleanElectionMayHaveDiscardedIsNotServed"},
	{"a change of the ISR that was refused waits for the next image that concerns the partition", "replica/upkeep.go",
		"if p.refused() {", "if p.refused() && false {", "TestARefusalAtALaterRevisionIsDecidedAgain"},
	{"a directory that failed can lead again at once", "replica/abilities.go",
		"case now-a.at >= steadyAfter:", "default:", "TestADirectoryIsUnableUntilItWasSteady"},
	{"a start that could not move is not asked for again", "replica/stream/directory.go",
		"if err != nil && f.state == live {\n\t\tf.tries++", "if false {\n\t\tf.tries++", "TestAStartThatCouldNotMoveMovesLater"},
	{"an epoch that the metadata did not give is exceeded by one", "metadata/epochs.go",
		"epoch, add = seen, Gap(generation)", "epoch = seen", "controller.TestAnEpochIsRaisedAboveAnother"},
	{"a start stays whose checkpoint failed", "storage/retention.go",
		"parts != nil && start > l.DurableStart() {", "false {", "TestRetentionCompletesAMovedStart"},
	{"retention moves the start of a log that follows since it looked", "storage/retention.go",
		"To: v.Start(start), Only: role,", "To: v.Start(start),", "TestRetentionMovesNoStartOfAFollower"},
	{"a former leader follows while its log start is not durable yet", "replica/stream/follower.go",
		"if e.LogStart > t.log.DurableStart() {", "if false {", "TestAFormerLeaderFollowsWithTheStartThatItsLogKeeps"},
	{"a start that a failed checkpoint left in memory is not made durable", "replica/stream/follower.go",
		"x.state == wanted && x.pinning == pinWanted", "false", "TestAFormerLeaderFollowsWithTheStartThatItsLogKeeps"},
	{"compaction trusts a high watermark from before an unclean election", "replica/partition.go",
		"if p.voided(p.role.Load()) {", "if false {", "TestARecordThatAnUncleanElectionMayHaveDiscardedIsNotServed"},
	{"what a log holds counts as pinned although its frames wait for a write in flight", "storage/scarce.go",
		"m.err == nil || errors.Is(m.err, errInFlight)", "m.err == nil", "TestAWriteInFlightPinsNothing"},
	{"appends wait although the system refuses the journal another file", "storage/scarce.go",
		"cause := d.journal.Stalled(); cause != nil {", "cause := d.journal.Stalled(); false {", "TestAJournalWithoutANextFileAnswers"},
	{"a corrected header is not synced", "storage/segment/flaws.go",
		"if len(mended) > 0 {", "if false {", "storage.TestCorrectionsOutliveAPowerLoss"},
	{"of a compacted segment, only the epochs of its last source are known", "storage/compact_swap.go",
		"KnownEnd(); known {", "KnownEnd(); known && false {", "TestEveryEpochOfACompactedSegment"},
	{"the late end of a former leader's stream stops readers here", "replica/stream/follower_read.go",
		"\t\tx.lost(e.Slot, 0)\n\t}\n}", "\t\tx.lost(e.Slot, 0)\n\t\tx.part.p.Unfollow()\n\t}\n}", "TestAFormerLeadersStreamEndsLate"},
	{"log repair repairs logs that other brokers have, too", "inspect/repair.go",
		"err != nil && !opt.LastCopy {", "err != nil && false {", "testing/brokers.TestDamagedLogDirectories"},
	{"a log that a repair left records out of counts as whole", "inspect/repair.go",
		"s.Lossy, s.Partial = true, true", "", "testing/brokers.TestDamagedLogDirectories"},
	{"a new log gets the directory of another topic's log", "storage/manager_assign.go",
		"m.replaceNamesakes(d, specs)", "m.replaceNamesakes(d, nil)", "TestALogOfAnotherTopicWithItsNameIsSetAside"},
	{"a log that a start could not read stays offline", "storage/repair_segment.go",
		"return false, l.reopen()", "return false, errInFlight", "TestALogThatAStartCouldNotReadIsOpenedLater"},
	{"a log that is opened later serves records before its high watermark covers them", "storage/recover_again.go",
		"o.Advanced() //", "//", "TestEndsOfALogThatIsOfflineDoNotCount"},
	{"a log that is opened later continues in its epoch", "storage/recover_again.go",
		"\tl.holdLocked()\n", "", "TestALogThatIsOpenedLaterNeedsANewEpoch"},
	{"a replica that left because it is slow returns where it stood", "replica/progress/propose.go",
		"if end < min(m.returns, l.end) {", "if false {", "TestAMemberReturnsWhenItHasGoneOn"},
	{"a log notes an epoch below the feature level that allows it", "replica/view.go",
		"Notes: m.image.FeatureLevel() >= metadata.LedLevel", "Notes: true", "TestNotesNeedTheFeatureLevel"},
	{"a leader that cannot read its log leads on", "replica/lead.go",
		"if offline {", "if false {", "testing/brokers.TestLogsThatAStartCannotRead"},
	{"an unclean election ignores a log that its broker cannot use for a moment", "controller/unclean.go",
		"case placed && !damaged && !known:", "case placed && !damaged && !known && false:", "TestAShorterLogWaitsForOneThatIsOffline"},
	{"the creation of a log ends when no replica is in sync any longer", "replica/manager.go",
		"!m.created(w.tp(), l) && !m.creating(w.tp(), l) {", "!m.created(w.tp(), l) {", "TestACreationOutlivesTheOthersInSync"},
	{"a reader learns of damage although another replica has the records", "replica/read.go",
		"|| r.leader && (p.env.resign == nil ||", "|| r.leader || (p.env.resign == nil ||", "TestDamageIsReadElsewhere"},
	{"a lease outlives the end of the connection to the controller", "membership/agent.go",
		"a.doubted = a.session.Newest()\n\ta.endLease()", "a.doubted = a.session.Newest()", "TestTheLeaseEndsWithTheConnection"},
	{"an answer to a heartbeat from before the end of a connection grants a lease", "membership/agent.go",
		"a.doubted = a.session.Newest()", "_ = a.session.Newest()", "TestTheLeaseEndsWithTheConnection"},
	{"heartbeats wait behind other requests", "cluster/router.go",
		"return method == membership.MethodHeartbeat }", "return method == 0 }", "TestHeartbeatsWaitForNoOtherRequest"},
	{"producer ids begin with 0 if the metadata do not name the next one", "controller/cluster.go",
		"if kv.ModRevision == 0 { // the first",
		"if kv.ModRevision == 0 {\n\t\t\tkv.Value = metadata.ProducerIDs{}.Encode()\n\t\t}\n\t\tif false { // the first",
		"TestNoProducerIDWithoutTheirRecord"},
	{"metadata that are restored from a time before the first producer name no producer id", "controller/recover.go",
		"\tafter = append(after, ids)\n", "\tif next.Next > producerGap(generation) {\n\t\tafter = append(after, ids)\n\t}\n",
		"TestRecoveredMetadataTrustNoISR"},
	{"a leader alone in the ISR reports damage that a follower has passed", "replica/read.go",
		"r.isr < 2 && !p.outlived()", "r.isr < 2", "TestDamageIsReadAtAFollowerThatCatchesUp"},
	{"a start waits for a disk that stopped answering after its recovery", "storage/recover_loss.go",
		"d.run(func() {\n\t\tif err := d.Registered(owner)", "func(f func()) { f() }(func() {\n\t\tif err := d.Registered(owner)",
		"TestAConfirmationDoesNotWaitForTheDisk"},
	{"sealed segments are never read again", "storage/scrub.go",
		"now.Sub(x.done) >= interval", "false", "TestSealedSegmentsAreReadOnceInAnInterval"},
	{"a batch of a coordinator has no bound", "coordinator/service/log.go",
		"r.Begins && size >= maxRun", "false", "TestLargeRunsAreSplitBetweenEvents"},
	{"repartition topics that depend on each other have no number of partitions", "coordinator/group/topology/partitions.go",
		"if !copartition(t, known, fixed) {", "if copartition(t, known, fixed); true {", "TestConfigure"},
	{"the segment size that Kafka Streams sets is ignored", "configdef/topic.go",
		`n := f.value("internal.segment.bytes").n; n > 0 {`, `n := f.value("internal.segment.bytes").n; n < 0 {`,
		"TestEveryTopicConfigIsRead"},
	{"a cluster that is restored has the id of the original", "controller/recover.go",
		"c.ID = s.Cluster }", "_ = c }", "TestRestoredMetadataAreThoseOfAnotherCluster"},
	{"coordinators trust what they load after a restore", "controller/recover.go",
		"\t\t\tp.Unclean, p.LeaderEpoch = p.LeaderEpoch, p.LeaderEpoch+2\n", "", "TestRestoredMetadataAreThoseOfAnotherCluster"},
	{"a restored cluster gives producer ids that the original may have given", "controller/recover.go",
		"\tnext.Next += producerGap(generation)\n", "", "TestRestoredMetadataAreThoseOfAnotherCluster"},
	{"a restored cluster has the snapshots of the original", "controller/recover.go",
		"case metadata.KindSnapshot, metadata.KindMark, metadata.KindCollection:", "case 0:",
		"TestRestoredMetadataAreThoseOfAnotherCluster"},
	{"a broker starts where a restore has not ended", "datadir/unfinished.go",
		"\tif err != nil || u == nil {\n\t\treturn err\n\t}\n\treturn exit", "\tif true {\n\t\treturn err\n\t}\n\treturn exit",
		"archive/restore.TestOtherDirectoriesAreRefused"},
	{"a restore continues that of another snapshot", "datadir/unfinished.go",
		"case before.Cluster != u.Cluster || before.Number != u.Number || before.Nonce != u.Nonce:", "case false:",
		"archive/restore.TestOtherDirectoriesAreRefused"},
	{"a restore writes into directories that are not empty", "datadir/unfinished.go",
		"if err := d.requireEmpty(); err != nil {", "if err := error(nil); err != nil {", "archive/restore.TestOtherDirectoriesAreRefused"},
	{"a snapshot is chosen although an object is missing", "archive/restore/find.go",
		"return s.present(ctx, needed)", "return nil", "TestOnlyAWholeSnapshotIsChosen"},
	{"altered batches are restored", "archive/format/read.go",
		"if crc32.Checksum(b, castagnoli) != run.Sum {", "if false {", "archive/restore.TestAlteredBatchesAreFound"},
	{"what an interrupted restore has copied is copied again", "archive/restore/append.go",
		"max(a.p.Start, a.next) {", "a.p.Start {", "TestARestoreContinuesWithinAnObject"},
	{"a collection deletes objects of snapshots", "archive/snapshots/collect.go",
		"if err == nil && named[n.Nonce] || err",
		"if err == nil && named[n.Nonce] && false || err", "TestACollectionDeletesOnlyWhatIsUnused"},
	{"a collection deletes the indexes to which the changes of others apply", "archive/snapshots/collect.go",
		"at = index.Previous\n",
		"at = nil\n", "TestACollectionDeletesOnlyWhatIsUnused"},
	{"a collection deletes manifests with older parts", "archive/snapshots/collect.go",
		"\t\tnamed[nonce] = true\n",
		"\t\tnamed[p.Manifest] = true\n", "TestACollectionDeletesOnlyWhatIsUnused"},
	{"a collection deletes objects although an index cannot be read", "archive/snapshots/collect.go",
		"\t\t\t\treturn nil, fmt.Errorf(\"snapshot %d: %w\", x.Number, err)\n\t\t\t}\n\t\t\tnamed[at.Nonce]",
		"\t\t\t\tbreak\n\t\t\t}\n\t\t\tnamed[at.Nonce]", "TestACollectionDeletesOnlyWhatIsUnused"},
	{"a collection deletes what is none of chronik's objects", "archive/snapshots/collect.go",
		"&& !objects.Unfinished(name) {",
		"&& false {", "TestACollectionDeletesOnlyWhatIsUnused"},
	{"a collection deletes what was put after its list", "archive/snapshots/collect.go",
		"\tdeleted := 0\n",
		"\tnames = nil\n\t_ = store.List(ctx, prefix, func(in objects.Info) error { names = append(names, in.Name); return nil })\n" +
			"\tdeleted := 0\n", "TestACollectionDeletesOnlyWhatIsUnused"},
	{"metadata that were recovered from an older state delete the newer snapshots", "archive/snapshots/collect.go",
		"if former.Generation != generation {", "if former.Generation != generation && false {",
		"TestACollectionDeletesOnlyWhatIsUnused"},
	{"a snapshot is named although a collection has begun since", "archive/snapshots/take.go",
		"{{Key: metadata.CollectionKey, ModRevision: collection}, {",
		"{{", "TestASnapshotIsNamedOnlyWhenItIsComplete"},
	{"a snapshot counts the collections until its end", "archive/snapshots/take.go",
		"x.complete(index, collection)",
		"x.complete(index, max(collection, s.opt.Image().Collection()))", "TestACollectionDeletesOnlyWhatIsUnused"},
	{"a snapshot lacks partitions of internal topics", "archive/snapshots/take.go",
		"lacking.Internal = lacking.Internal || t.Internal\n",
		"\n", "TestPartitionsThatNoBrokerCanRead"},
	{"an upload continues of which the beginning's answer was lost", "archive/snapshots/take.go",
		"if err != nil { // also",
		"if err != nil && len(list) > 0 { // also", "TestAnUploadOfWhichTheAnswerIsLostEnds"},
	{"the newest snapshot is deleted", "archive/snapshots/take.go",
		"max(keep, 1)",
		"keep", "TestExpiredSnapshots"},
	{"the time of snapshots follows a clock that is set back", "archive/snapshots/take.go",
		"at = max(at, list[len(list)-1].Time)\n",
		"\n", "TestExpiredSnapshots"},
	{"a clock that was set back ends the schedule of snapshots", "archive/snapshots/service.go",
		"earlier(time.UnixMilli(x.Time), found.at)",
		"time.UnixMilli(x.Time)", "TestASchedule"},
	{"a request for a snapshot is queued in a term that forgets it", "archive/snapshots/service.go",
		"if s.state.Term != term { // it would",
		"if false { // it would", "TestRequestsOfOperators"},
	{"a broker that knows no upload counts as one that is silent", "archive/snapshots/desk.go",
		"if a.Unknown {",
		"if false {", "TestRequestsAreFixed"},
	{"a missing index is no damage", "archive/snapshots/collect.go",
		"at); errors.Is(err, objects.ErrNotFound) {",
		"at); false {", "TestVerification"},
	{"everything is uploaded again because the store does not answer", "archive/snapshots/take.go",
		"if !format.Unusable(err) {", "if false {", "TestASnapshotIsNamedOnlyWhenItIsComplete"},
	{"packs of former processes become old only if this one lasts a day", "archive/writer/writer.go",
		"now.Add(-rand.N(packAge))", "now.Add(-0 * rand.N(packAge))", "TestPacksOfOthersBecomeOld"},
	{"an error of the store counts as damage of a snapshot", "archive/snapshots/collect.go",
		"|| exit.CodeOf(damage) != exit.Data) {",
		") {", "TestVerification"},
	{"a verification brings back a deleted snapshot", "archive/snapshots/collect.go",
		"If: []metadata.Compare{{Key: key, ModRevision: x.Revision}},\n\t\t",
		"", "TestVerification"},
}

// text returns the text of the rule's file, and of the file without the rule.
func (r rule) text(t *testing.T) (with, without string) {
	t.Helper()
	b, err := os.ReadFile("../../" + r.file)
	must.OK(t, err)
	if n := strings.Count(string(b), r.old); n != 1 {
		t.Fatalf("%s has the text that must go %d times: %s", r.file, n, r.old)
	}
	return string(b), strings.Replace(string(b), r.old, r.new, 1)
}

// from returns the directory, below internal, and the name of the rule's test.
func (r rule) from() (dir, name string) {
	if i := strings.LastIndexByte(r.test, '.'); i >= 0 {
		return r.test[:i], r.test[i+1:]
	}
	return filepath.Dir(r.file), r.test
}

// exists checks that the rule is still in the code, and that its test exists.
func (r rule) exists(t *testing.T) {
	t.Helper()
	r.text(t)
	dir, name := r.from()
	files, err := filepath.Glob("../../" + dir + "/*_test.go")
	must.OK(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		must.OK(t, err)
		if strings.Contains(string(b), "\nfunc "+name+"(") {
			return
		}
	}
	t.Errorf("internal/%s has no %s", dir, name)
}

// The rules are still in the code, and their tests exist. docs/replication.md lists them, and
// docs/invariants.md the invariants.
func TestEveryRuleHasItsTest(t *testing.T) {
	const again = "go test ./internal/testing/removed"
	var list strings.Builder
	list.WriteString("| without the rule | a test that fails then |\n|---|---|\n")
	for _, r := range rules {
		r.exists(t)
		dir, name := r.from()
		fmt.Fprintf(&list, "| %s | `%s.%s` |\n", r.without, dir, name)
	}
	golden.Part(t, "../../../docs/replication.md", "rules", list.String(), again)
	list.Reset()
	list.WriteString("| without the invariant | | a test that fails then |\n|---|---|---|\n")
	for _, i := range invariants {
		i.exists(t)
		dir, name := i.from()
		fmt.Fprintf(&list, "| %s | %s | `%s.%s` |\n", i.without, i.of, dir, name)
	}
	golden.Part(t, "../../../docs/invariants.md", "removed invariants", list.String(), again)
}
