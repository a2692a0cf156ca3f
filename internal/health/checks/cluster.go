package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// Thresholds of the checks of a cluster.
const (
	noLeaderAfter = 3 * time.Second // an election takes 1 to 2 s
	// The end of the metadata leader ends the leases of all brokers, until its successor has
	// confirmed a heartbeat: none of them has a fault, or is better for clients than another.
	noLeaseAfter = noLeaderAfter
	standsStill  = time.Second      // a change is applied within milliseconds
	shownAfter   = 5 * time.Second  // a change is applied late while a disk is busy
	hangingAfter = 5 * time.Second  // longer than a sync on a busy disk
	orphanAfter  = 15 * time.Second // a wiped broker's vote moves after about 10 s
	votersAfter  = time.Minute      // a rolling restart with a new list of seeds may take longer
	goneAfter    = 5 * time.Minute  // a machine that starts again is back before
	mostSkew     = 2 * time.Second
)

// unmovedVote is what an operation waits for, see view.Quorum.Unmoved.
const unmovedVote = "wait until the vote of the lost metadata directory has moved"

// clusterPage has the runbook of each finding about a cluster.
const clusterPage = "docs/cluster.md, Findings"

// recoverPage is about the loss of most voters.
const recoverPage = "docs/cluster.md, Recover lost metadata"

// clusterChecks returns the checks of a member of a cluster. Those of the object store also apply
// to a broker on its own.
func clusterChecks() []Check {
	inCluster := func(run func(*Facts, *notes)) func(*Facts, *notes) {
		return func(f *Facts, n *notes) {
			if f.Cluster != nil && f.Serving {
				run(f, n)
			}
		}
	}
	member := func(run func(*view.Cluster, *notes)) func(*Facts, *notes) {
		return inCluster(func(f *Facts, n *notes) { run(f.Cluster, n) })
	}
	return []Check{
		{Name: "snapshots", run: checkSnapshots,
			Doc: "Snapshots of the cluster: the age of the newest, why one is not taken, what its verification found. " +
				"Without a good one, there is nothing to restore."},
		{Name: "tier", run: checkTier,
			Doc: "Tiered storage: partitions whose records this broker cannot copy to the object store for three minutes, or cannot read there, " +
				"and why."},
		{Name: health.CheckMembership, run: inCluster(checkMembership),
			Doc: "In a cluster: whether the controller accepts this broker's heartbeats. Otherwise other brokers take over its partitions."},
		{Name: health.CheckQuorum, run: inCluster(checkQuorum),
			Doc: "In a cluster: whether the metadata have a leader, and how many voters can fail before they have none."},
		{Name: checkOfSeeds, run: inCluster(checkSeeds),
			Doc: "In a cluster: addresses in this broker's `cluster.seeds` at which no broker of the cluster is. Brokers that are down are no such finding."},
		{Name: "leaderless", run: checkLeaderless,
			Doc: "In a cluster: partitions without a leader, and which broker or directory they wait for."},
		{Name: health.CheckBrokers, run: checkBrokers,
			Doc: "In a cluster: brokers that are fenced or start, and replicas that are not in sync, one finding for each broker."},
		{Name: health.CheckProcesses, run: checkProcesses,
			Doc: "In a cluster: two processes that run with one node.id, such as one on a copy of a data directory."},
		{Name: health.CheckReports, run: checkReports,
			Doc: "In a cluster: active brokers whose own report does not reach this broker, which then does not know their findings."},
		{Name: "listeners", run: member(checkListeners),
			Doc: "In a cluster: listeners that some active brokers have and others lack. Clients that dial such a name do not learn all brokers."},
		{Name: checkOfForwarding, run: checkForwarding,
			Doc: "In a cluster: brokers to which requests of a listener with `route: forward` cannot be passed."},
		{Name: "stopped_replica", run: checkStopped,
			Doc: "In a cluster: replicas of this broker that cannot follow their leaders: no connection can be made, or they would discard " +
				"committed records."},
		{Name: "unclean", Loud: true, run: member(checkUnclean),
			Doc: "In a cluster: partitions whose leader was elected although it may lack acknowledged records."},
		{Name: "skew", run: member(checkSkew),
			Doc: "In a cluster: a clock that differs from the metadata leader's. Retention by time uses it."},
		{Name: "version", run: member(checkVersion),
			Doc: "In a cluster: a software version that differs from the metadata leader's."},
	}
}

func checkMembership(f *Facts, n *notes) {
	c := f.Cluster
	n.see("state " + c.State)
	x := health.Finding{
		Severity: health.Bad, Subject: health.ThisBroker, NotReady: true,
		Works: "what it answers with acks=all is on all replicas in sync; it refuses acks=1 and group requests; " +
			"topics and leaders that it shows to clients are those of its last contact",
	}
	switch {
	case c.NoLease < noLeaseAfter && c.State != "fenced" && c.Stale >= shownAfter:
		x.Severity, x.NotReady = health.Warn, false
		x.Problem = fmt.Sprintf("its metadata stand still: it has not applied changes that the controller made %v ago, and shows clients "+
			"the topics and leaders of before", c.Stale.Round(time.Second))
		x.Works = "it leads its partitions as long as the controller accepts its heartbeats"
		x.Remedy = "check the disk of its data directory; if that works, check that the other brokers can dial this one: the changes arrive on " +
			"connections that they dial (" + clusterPage + ")"
	case c.NoLease < noLeaseAfter && c.State != "fenced":
		return
	case c.Quorum.NoLeader >= noLeaderAfter && storeFailed(&c.Quorum):
		x.Problem = "the controller does not confirm its heartbeats, because its metadata cannot be written, and other brokers take over " +
			"its partitions"
		x.Remedy = "follow its finding about the metadata quorum (" + clusterPage + ")"
	case c.Quorum.NoLeader >= noLeaderAfter:
		x.Problem = "the controller does not confirm its heartbeats, because the cluster has no metadata leader"
		x.Follows = health.Cause(health.CheckQuorum, c.Self)
		x.Remedy = "follow the finding about the metadata quorum (" + clusterPage + ")"
	case c.Stale >= standsStill:
		x.Problem = fmt.Sprintf("its metadata stand still: it has not applied changes that the controller made %v ago, so it has no lease, "+
			"and other brokers take over its partitions", c.Stale.Round(time.Second))
		x.Works = "the other brokers serve clients; this one returns automatically when it has applied the changes"
		x.Remedy = "check the disk of its data directory; if that works, check that the other brokers can dial this one: the changes arrive on " +
			"connections that they dial (" + clusterPage + ")"
	case c.State == "fenced":
		x.Problem = "the controller has fenced it: other brokers lead its partitions, and it has left the in-sync replicas"
		x.Works = ""
		x.Remedy = "it registers again automatically; if it stays fenced, its log names the reason for which the controller refuses it (" +
			clusterPage + ")"
	case c.Quorum.Leader < 0:
		x.Problem = "the controller does not confirm its heartbeats: it knows no metadata leader at present"
		x.Remedy = "wait for a moment, in which the voters elect one; if there is none then, start the other brokers (" + clusterPage + ")"
	default:
		x.Problem = "the controller does not confirm its heartbeats, so other brokers take over its partitions"
		x.Remedy = "check the network between it and " + leaderText(c) + ", in both directions, and the load of both machines (" +
			clusterPage + ")"
	}
	x.Follows = cmp.Or(f.apart(c.Self), x.Follows)
	n.addFinding(x)
}

// storeFailed reports whether this broker knows no metadata leader because its own metadata cannot
// be written. The other voters may have one.
func storeFailed(q *view.Quorum) bool { return q.Failed != "" && q.Voters > 1 }

func leaderText(c *view.Cluster) string {
	switch {
	case c.Quorum.Leader == c.Self: // it stood still, and does not know yet that another one leads
		return "the other brokers"
	case c.Quorum.Leader < 0:
		return "the metadata leader"
	}
	return fmt.Sprintf("the metadata leader, broker %d", c.Quorum.Leader)
}

// failures returns how many of a number of voters may fail.
func failures(voters int) string {
	if n := (voters - 1) / 2; n > 0 {
		return fmt.Sprintf("%d", n)
	}
	return "none"
}

// unreachedBroker returns why this broker cannot connect to another one, nil if it can.
func (f *Facts) unreachedBroker(broker int32) *view.Unreached {
	of := f.Cluster.Unreached
	if i := slices.IndexFunc(of, func(x view.Unreached) bool { return x.Broker == broker }); i >= 0 {
		return &of[i]
	}
	return nil
}

// unreached returns why this broker cannot connect to another one, as the end of a sentence.
func (f *Facts) unreached(broker int32) string {
	if x := f.unreachedBroker(broker); x != nil {
		return fmt.Sprintf("; a connection to %s fails: %s", x.Address, x.Reason())
	}
	return ""
}

// linkRemedy returns what to do about a broker if the error of the connection to it says so: the
// process there runs, and neither a start nor its replacement helps. It is empty otherwise.
func (f *Facts) linkRemedy(broker int32) string {
	x := f.unreachedBroker(broker)
	switch {
	case x == nil:
		return ""
	case x.Theirs:
		return fmt.Sprintf("replace the certificate of broker %d and its key; if `chronikd secure init` made them, copy its ca-key.pem to "+
			"their directory DIR, and run `chronikd secure init DIR --renew`: the broker takes it without a restart (%s)", broker, clusterPage)
	case x.Remedy != "":
		return x.Remedy + " (" + clusterPage + ")"
	}
	return ""
}

// isGone reports whether a broker has been away for so long that it may not return: this one cannot
// connect to it, and has received no report from it.
func (f *Facts) isGone(broker int32) bool {
	x := f.unreachedBroker(broker)
	if x == nil {
		return false
	}
	since := x.Since
	if o := f.other(broker); o != nil && o.At.After(since) {
		since = o.At
	}
	return f.Now.Sub(since) >= goneAfter
}

func checkBrokers(f *Facts, n *notes) {
	c := f.Cluster
	if c == nil || !f.Serving {
		return
	}
	n.see(text.Count(len(c.Brokers), "registered broker"))
	for i := range c.Brokers {
		b := &c.Brokers[i]
		x := health.OfBroker(b.ID)
		x.Severity, x.Holds = health.Warn, holds(b)
		switch b.State {
		case "fenced":
			x.Problem = "it is fenced: it sends no heartbeats, or its metadata stand still" + f.unreached(b.ID)
			x.Remedy = f.fencedRemedy(b.ID)
		case "starting":
			x.Problem = "it is starting" + f.unreached(b.ID)
			x.Remedy = f.startingRemedy(b.ID)
		case "draining", "drained":
			x.Problem = "it is stopping, and its leaderships have moved or move"
			x.Remedy = "wait until it has returned before you stop another broker"
		default:
			if x.Follows = f.causeOf(b.ID); f.onlyFull(b.ID) != "" && b.FailedDirs > 0 {
				low := *b
				low.LowDirs, low.FailedDirs = b.LowDirs+b.FailedDirs, 0
				b = &low
			}
			if x.Problem, x.Remedy = unable(b); x.Problem != "" {
				x.Works = "other replicas in sync lead its partitions; its own return when it can write, without a restart"
				if b.FailedDirs+b.HungDirs+b.LowDirs == 0 {
					x.Works = "where other replicas are in sync, one of them leads, and the broker replaces its logs by copies, without a restart"
				}
				break
			}
			if slices.Contains(c.Quorum.Unmoved, b.ID) && b.OutOfSync.Count == 0 {
				x.Problem = "its vote is still that of its former metadata directory, which is lost; if another broker loses its directory " +
					"now, no majority may be left"
				x.Works = "everything"
				x.Remedy = "wait a few seconds before another broker is stopped (docs/replication.md, Losing a metadata directory)"
				x.Holds = unmovedVote
				break
			}
			if b.OutOfSync.Count == 0 {
				continue
			}
			x.Problem = "it is active, and not all of its replicas are in sync"
			x.Remedy = "do not stop another broker now; if the number does not fall, follow its own findings; if it has none about them, " +
				"its log and those of the leaders name the reason (" + clusterPage + ")"
			if faulty := f.faulty(b.ID, &b.OutOfSync); faulty.Count > 0 {
				x.Problem += fmt.Sprintf("; it reports faults of its own logs of %s, to which it may copy nothing", partitionsText(&faulty))
				x.Remedy = "do not stop another broker now; follow its own findings about these partitions (" + clusterPage + ")"
			}
		}
		awaiting(b, &x)
		if b.VotesOnly {
			x.Problem += "; it only votes, so clients notice nothing"
			x.Works = "everything; if one more voter fails, the metadata may have no leader"
		}
		if f.linkRemedy(b.ID) == "" { // what it last reported does not explain more
			x.Problem += f.reported(b.ID)
		}
		if b.OutOfSync.Count > 0 {
			x.Problem += fmt.Sprintf("; it is not in sync in %s", partitionsText(&b.OutOfSync))
			x.Works = "the replicas in sync serve these partitions"
			if b.AtMin > 0 {
				x.Works += fmt.Sprintf("; if one more fails, acks=all is refused in %s", text.Count(b.AtMin, "partition"))
			}
			x.Severity = health.Warn
		}
		if b.BelowMin.Count > 0 {
			x.Severity = health.Bad
			x.Problem += fmt.Sprintf("; acks=all is refused in %s, with fewer replicas in sync than min.insync.replicas",
				partitionsText(&b.BelowMin))
			x.Works = "these partitions can be read"
		}
		if b.Full.Count > 0 {
			x.Severity = health.Bad
			x.Problem += fmt.Sprintf("; records of clients are refused in %s, because no other replica in sync can write",
				partitionsText(&b.Full))
			x.Works = "these partitions can be read; a leader that can write takes over when there is one"
		}
		if b.LastDamaged.Count > 0 {
			x.Severity = health.Bad
			x.Problem += fmt.Sprintf("; it leads %s nevertheless, because no other replica is whole and can lead",
				partitionsText(&b.LastDamaged))
			x.Works = "the records of these partitions that are not damaged can be read; the log is replaced by a copy when another replica " +
				"has all of its records, and otherwise stays as it is"
		}
		if b.SoleDamaged.Count > 0 {
			x.Severity = health.Bad
			x.Problem += fmt.Sprintf("; no other broker has a replica of %s", partitionsText(&b.SoleDamaged))
			x.Works = fmt.Sprintf("the other partitions; in these, what the findings of broker %d name as readable", b.ID)
		}
		f.leaderlessOn(b.ID, &x)
		f.ofTwins(b.ID, &x)
		if x.Severity == health.Bad || f.twins(b.ID) == "" && b.FailedDirs+b.HungDirs+b.LowDirs == 0 {
			x.Follows = "" // what it costs, or another cause
		}
		n.addShared(x)
	}
}

// awaiting completes the finding about a broker that waits for the remedies of others, if these are
// all that it waits for.
func awaiting(b *view.Broker, x *health.Finding) {
	if len(b.Awaits) == 0 || b.FailedDirs+b.HungDirs+b.LowDirs > 0 || b.Damaged.Count > b.OutOfSync.Count {
		return
	}
	x.About.Awaits = b.Awaits
	x.Remedy = fmt.Sprintf("follow the findings of %s, whose logs of these partitions are damaged: they say what to save on broker %d "+
		"before a repair (%s)", brokersText(b.Awaits), b.ID, clusterPage)
}

// fencedRemedy returns what to do about a broker that is fenced.
func (f *Facts) fencedRemedy(broker int32) string {
	c, o, x := f.Cluster, f.other(broker), f.unreachedBroker(broker)
	remedy := f.linkRemedy(broker)
	if remedy != "" {
		return remedy
	}
	network := fmt.Sprintf("check the network between it and %s, in both directions", leaderText(c))
	if x != nil {
		network = fmt.Sprintf("check `advertise` of broker %d, and the network between it and %s, in both directions", broker, leaderText(c))
	}
	switch {
	case o != nil && o.Fresh(f.Now) && x != nil && x.Refused:
		remedy = fmt.Sprintf("start it: nothing listens at its address, although its own report is only %s old; if it runs, %s",
			age(f.Now.Sub(o.At)), network)
	case o != nil && o.Fresh(f.Now):
		remedy = fmt.Sprintf("its own report is %s old: follow the findings of broker %d; if it has none, %s; if it has ended meanwhile, "+
			"start it", age(f.Now.Sub(o.At)), broker, network)
	default:
		remedy = "start it, read its own findings, or " + network
		if b := c.Of(broker); b.Replicas == 0 && !b.VotesOnly {
			remedy += fmt.Sprintf("; if it will not return, run `chronikctl broker unregister %d`: it has no replicas", broker)
		} else if f.isGone(broker) {
			remedy += fmt.Sprintf("; if it will not return, run `chronikctl broker drain %[1]d` and then `chronikctl broker unregister %[1]d`; "+
				"if a topic has a replica on every broker, start another broker before that", broker)
		}
	}
	return remedy + " (" + clusterPage + ")"
}

// startingRemedy returns what to do about a broker that is starting.
func (f *Facts) startingRemedy(broker int32) string {
	if remedy := f.linkRemedy(broker); remedy != "" {
		return remedy
	}
	if x := f.unreachedBroker(broker); x != nil {
		return fmt.Sprintf("wait until it is ready; if %s stays unreachable, check `advertise` of broker %d, and the network and firewall from "+
			"this machine to that address (%s)", x.Address, broker, clusterPage)
	}
	return "wait until it is ready"
}

// holds returns what must come before another broker is stopped, while this one is not in order.
func holds(b *view.Broker) string {
	switch {
	case b.State == "fenced":
		return fmt.Sprintf("bring back broker %d", b.ID)
	case b.State == "starting":
		return fmt.Sprintf("wait until broker %d is ready", b.ID)
	case b.State == "draining", b.State == "drained":
		return fmt.Sprintf("wait until broker %d has returned", b.ID)
	case b.FailedDirs+b.HungDirs+b.LowDirs+b.Damaged.Count > 0:
		return fmt.Sprintf("resolve the findings of broker %d", b.ID)
	}
	return fmt.Sprintf("wait until broker %d is in sync", b.ID)
}

// mostTwins bounds the findings about processes: without a secret, anybody can pretend to be one.
const mostTwins = 10

// checkProcesses finds brokers as which two processes run. A broker that starts finds them, too: it
// may be one of them, and wait because of that.
func checkProcesses(f *Facts, n *notes) {
	for i := range f.Twins[:min(len(f.Twins), mostTwins)] {
		t := &f.Twins[i]
		each, at := make([]string, 0, len(t.Processes)), make([]string, 0, len(t.Processes))
		for i := range t.Processes {
			p := &t.Processes[i]
			each, at = append(each, processText(p)), append(at, placeText(p))
		}
		slices.Sort(at)
		end := "on the machine where it was not meant to run"
		if at = slices.Compact(at); len(at) > 1 {
			end = strings.Join(at, " or ") + ", whichever is not meant"
		}
		x := health.OfBroker(t.Broker)
		x.Subject = "processes of " + x.Subject
		x.Severity, x.Holds = health.Bad, fmt.Sprintf("end one of the two processes of broker %d", t.Broker)
		x.Problem = fmt.Sprintf("two processes run with node.id=%d: one %s; ", t.Broker, strings.Join(each, ", and one "))
		if t.Copies {
			x.Problem += "each ends the connections of the other one, so that at times neither serves clients"
			x.Works = "the other brokers lead what has another replica in sync"
		} else {
			x.Severity = health.Warn
			x.Problem += "they have different data directories, and one is refused as long as the other one is connected"
			x.Works = "everything, until the one that is connected ends and the other one takes its place"
		}
		x.Remedy = fmt.Sprintf("end the process %s, for example the one on a copy of a machine or of a data directory, and do nothing else: the "+
			"other one registers again automatically; start it if it has ended, too; this finding ends some seconds later (%s)", end, clusterPage)
		n.addShared(x)
	}
}

// ofTwins makes a finding about a broker an effect of its two processes, if there are two.
func (f *Facts) ofTwins(broker int32, x *health.Finding) {
	if cause := f.twins(broker); cause != "" {
		x.Follows, x.Remedy = cause, fmt.Sprintf("follow the finding about the processes of broker %d, and nothing else", broker)
	}
}

// processText describes one of several processes of a broker, as far as it is known.
func processText(p *view.Process) string {
	parts := []string{"advertises " + cmp.Or(p.Address, "an address that its version does not tell")}
	if p.Host != "" {
		parts = append(parts, "connects from "+p.Host)
	}
	if p.Registered {
		parts = append(parts, "has the newest registration")
	}
	if !p.Since.IsZero() {
		parts = append(parts, "was first met at "+p.Since.Format(time.RFC3339))
	}
	last := len(parts) - 1
	return strings.TrimPrefix(strings.Join(parts[:last], ", ")+" and "+parts[last], " and ")
}

// placeText returns where to find a process.
func placeText(p *view.Process) string {
	text := "at " + cmp.Or(p.Address, "an address that its version does not tell")
	if p.Host != "" {
		text += " on " + p.Host
	}
	return text
}

// twins returns the cause of all that follows from two processes that run as one of some brokers,
// empty if there are none.
func (f *Facts) twins(brokers ...int32) string {
	for i := range f.Twins { // one that is refused has no effect on the other one
		if f.Twins[i].Copies && slices.Contains(brokers, f.Twins[i].Broker) {
			return health.Cause(health.CheckProcesses, f.Twins[i].Broker)
		}
	}
	return ""
}

// unable returns why an active broker cannot write everywhere, and what to do; empty if it can.
func unable(b *view.Broker) (problem, remedy string) {
	var what, do []string
	add := func(n int, one, many, remedy string) {
		if n > 0 {
			what, do = append(what, text.Plural(n, "log directory "+one, "log directories "+many)), append(do, remedy)
		}
	}
	add(b.FailedDirs, "returns errors", "return errors", "replace or repair the disk that fails")
	add(b.HungDirs, "hangs or makes no new logs", "hang or make no new logs", "see why the directory hangs or makes no new logs")
	add(b.LowDirs, "is low on space", "are low on space", "free space, or enlarge the disk")
	if b.Damaged.Count > 0 {
		what = append(what, "its logs of "+partitionsText(&b.Damaged)+" are damaged")
		do = append(do, "follow what it reports about these logs")
	}
	if len(what) == 0 {
		return "", ""
	}
	return "it cannot write everywhere: " + strings.Join(what, ", "), strings.Join(do, "; ") +
		fmt.Sprintf(": the findings of broker %d name the directories (%s)", b.ID, clusterPage)
}

// unreachedAfter is how much longer than a session timeout a connection to a broker may fail: one
// that has ended is fenced before, also if it led the metadata. Its successor is elected within 1
// to 2 s, and waits for a whole session timeout.
const unreachedAfter = 5 * time.Second

// stands reports whether it has been long enough that a connection to an active broker cannot be
// made. While a metadata leader is elected, it does not report so.
func (f *Facts) stands(x *view.Unreached) bool {
	return f.Now.Sub(x.Since) >= f.Cluster.Session+unreachedAfter && f.Cluster.Of(x.Broker).State == "active" && !elects(f.Cluster)
}

// leads reports whether the metadata have a leader. Without one no broker is fenced: one that the
// metadata show as active may have ended.
func leads(c *view.Cluster) bool { return c.Quorum.NoLeader == 0 }

// elects reports whether the metadata have had no leader for so short a time that no finding names
// that.
func elects(c *view.Cluster) bool { return !leads(c) && c.Quorum.NoLeader < noLeaderAfter }

// follows returns the cause of a connection that cannot be made, if another finding has it.
func (f *Facts) follows(x *view.Unreached) string {
	c := f.Cluster
	if cause := f.twins(x.Broker, c.Self); cause != "" {
		return cause
	}
	switch {
	case x.Theirs:
		return health.Cause(health.CheckCertificate, x.Broker)
	case x.Ours:
		return health.Cause(health.CheckCertificate, c.Self)
	case !leads(c):
		return health.Cause(health.CheckQuorum, c.Self)
	}
	return ""
}

func checkStopped(f *Facts, n *notes) {
	if f.Cluster == nil || !f.Serving {
		return
	}
	c := f.Cluster
	for i := range c.Unreached {
		x := &c.Unreached[i]
		if f.stands(x) {
			found := notReached(c, x)
			found.Follows = f.follows(x)
			n.addFinding(found)
		}
	}
	for _, s := range c.Stopped {
		problem := "following the leader would discard committed records"
		if s.Ahead {
			problem = "they have records of a later leader epoch than the leader"
		}
		n.addFinding(health.Finding{Severity: health.Warn, Subject: fmt.Sprintf("replicas of this broker that broker %d leads", s.Leader),
			Problem: partitionsText(&s.Partitions) + ": not copied, because " + problem,
			Works:   "the leader and the other replicas serve these partitions",
			Stops:   true,
			Remedy: "a data directory may be an older copy: compare `chronikctl log dump` of the log on this broker and on the leader; if the " +
				"leader's log is the right one, stop this broker, remove the partition's directory and start it: it copies the log again (" +
				clusterPage + ")"})
	}
}

// notReached is the finding that this broker cannot connect to another one. The controller gives no
// leadership to those in Shunned.
func notReached(c *view.Cluster, x *view.Unreached) health.Finding {
	shunned := slices.Contains(c.Shunned, x.Broker)
	out := health.Finding{Severity: health.Warn, Subject: fmt.Sprintf("connection to broker %d", x.Broker),
		Problem: fmt.Sprintf("it cannot be made at %s, the address that broker %d advertises to other brokers", x.Address, x.Broker),
		Remedy: fmt.Sprintf("check `advertise` of broker %d, and the network and firewall from this machine to that address; the "+
			"replicas then follow within seconds", x.Broker)}
	if x.Follows && !shunned {
		out.Severity = health.Bad
		out.Problem += ", so replicas of what it leads do not follow"
	}
	out.Problem += ": " + x.Reason()
	if x.Remedy != "" {
		out.Remedy = x.Remedy + "; the replicas then follow within seconds"
	}
	switch {
	case !leads(c):
		out.Works = fmt.Sprintf("what other brokers lead; without a metadata leader it is not known whether broker %d runs", x.Broker)
		out.Remedy = fmt.Sprintf("start broker %d if it does not run; otherwise ", x.Broker) + out.Remedy
	case shunned:
		out.Works = fmt.Sprintf("most other brokers cannot connect to broker %d either, so the controller has moved its leaderships to "+
			"other replicas in sync; it leads only what no other replica can", x.Broker)
		out.Remedy += fmt.Sprintf(", and broker %d leads again within 5 minutes, or at once after `chronikctl topic elect`", x.Broker)
	default:
		out.Works = fmt.Sprintf("what other brokers lead; broker %d itself is active, and keeps its leaderships as long as enough of "+
			"the other brokers can connect to it", x.Broker)
	}
	out.Remedy += " (" + clusterPage + ")"
	return out
}

func checkListeners(c *view.Cluster, n *notes) {
	if len(c.Uncommon) == 0 {
		return
	}
	var lacks []string
	for _, l := range c.Uncommon {
		lacks = append(lacks, fmt.Sprintf("%s %s no listener %s, which %s %s", brokersText(l.Lacks), hasHave(len(l.Lacks)), l.Name,
			brokersText(l.On), hasHave(len(l.On))))
	}
	n.addShared(health.Finding{Severity: health.Bad, Subject: "names of listeners",
		Problem: strings.Join(lacks, "; ") + ": clients that dial such a listener do not learn the brokers that lack it, and cannot use " +
			"what these lead (LISTENER_NOT_FOUND)",
		Works: "clients that dial a listener whose name all active brokers have, or one with `route: forward`",
		Stops: true,
		Remedy: "give the listener the same `name:` in the configuration of all brokers (the one of `listen:` is called default), and restart " +
			"those that change, one at a time (" + clusterPage + ")"})
}

func hasHave(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func checkUnclean(c *view.Cluster, n *notes) {
	if c.Unclean.Count == 0 {
		return
	}
	recovered := ""
	if !c.Recovered.IsZero() {
		recovered = fmt.Sprintf("the metadata were recovered at %s; an election after that has lost nothing that a replica still had, if its line in "+
			"the log of the controller has an empty not_compared and no damaged log: then only confirm it. Otherwise ",
			c.Recovered.Format(time.RFC3339))
	}
	n.addShared(health.Finding{Severity: health.Warn, Subject: "unclean elections",
		Problem: partitionsText(&c.Unclean) + ": a leader was elected that may lack acknowledged records",
		Works:   "everything in these partitions that no other finding names",
		Remedy: recovered + "compare the records with their source, and produce again what is missing; the log of the controller at the time of the election has the " +
			"replicas and their log ends; then " + health.Command("chronikctl", "topic", "elect", "--confirm-loss") +
			" ends this finding, which stays until then (" + clusterPage + ")"})
}

func checkVersion(c *view.Cluster, n *notes) {
	if c.Version != "" && c.Version != c.Own {
		n.add(health.Note, "version", fmt.Sprintf("this broker runs %s, and %s, runs %s", c.Own, leaderText(c), c.Version),
			"upgrade the other brokers, one at a time ("+clusterPage+")")
	}
}

func checkSkew(c *view.Cluster, n *notes) {
	if c.Skew.Abs() < mostSkew {
		return
	}
	direction := "behind"
	if c.Skew < 0 {
		direction = "ahead of"
	}
	n.addFinding(health.Finding{Severity: health.Warn, Subject: "clock",
		Problem: fmt.Sprintf("it is %v %s that of %s: retention by time and tombstones of compacted topics end at different times on the brokers",
			c.Skew.Abs().Round(time.Second), direction, leaderText(c)),
		Works:  "elections, leases and acknowledgements do not use the clock",
		Remedy: "synchronize the clocks of all brokers with NTP: `chronyc tracking` or `timedatectl` shows their state (" + clusterPage + ")"})
}

func partitionsText(p *view.Partitions) string {
	return text.Count(p.Count, "partition") + " (" + listed(p.Names, p.Count) + ")"
}

func brokersText(ids []int32) string {
	ids = slices.Sorted(slices.Values(ids))
	if len(ids) == 1 {
		return "broker " + text.Numbers(ids)
	}
	return "brokers " + text.Numbers(ids)
}

func isAre(n int) string {
	if n == 1 {
		return "it is"
	}
	return "they are"
}

func theyIt(n int) string { return strings.Fields(isAre(n))[0] }

func themIt(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
