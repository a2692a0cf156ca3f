package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

func checkQuorum(f *Facts, n *notes) {
	c := f.Cluster
	q := &c.Quorum
	if q.Voters > 0 {
		n.see(fmt.Sprintf("%s, metadata leader %d", text.Count(q.Voters, "voter"), q.Leader))
	}
	if q.Hanging >= hangingAfter {
		n.addFinding(health.Finding{Severity: health.Bad, Subject: "metadata of this broker",
			Problem: "its metadata store does not respond: a write or an fdatasync in the metadata directory hangs",
			Works:   hangingWorks(c),
			Stops:   true,
			Remedy: "run " + kernelLog + " to see what the kernel reports about the disk of the data directory; if it does not recover, " +
				"replace it and restart the broker with an empty data directory (" + clusterPage + ")"})
		return
	}
	if q.Voters == 0 {
		return // the cluster is being formed
	}
	if q.NoLeader >= noLeaderAfter {
		noMetadataLeader(f, n)
		return
	}
	switch {
	case len(q.Unregistered) > 0:
		n.addShared(health.Finding{Severity: health.Warn, Subject: "metadata quorum",
			Problem: fmt.Sprintf("%s of %d belongs to %s, unregistered before, and no other broker has taken it over: the metadata "+
				"survive one failure less", text.Count(len(q.Unregistered), "vote"), q.Voters, brokersText(q.Unregistered)),
			Works:  "the metadata can be changed",
			Stops:  true,
			Remedy: voteRemedy(q)})
	case q.Orphans > 0 && q.Orphaned >= orphanAfter:
		n.addShared(health.Finding{Severity: health.Warn, Subject: "metadata quorum",
			Problem: fmt.Sprintf("%s of %d has a member id that no broker has: its metadata directory was lost, and its vote has not moved",
				text.Count(q.Orphans, "voter"), q.Voters),
			Works:  "the metadata can be changed",
			Holds:  "start the broker whose metadata directory was lost",
			Remedy: "do not stop another broker now; start the broker whose directory was lost, with its node.id and an empty data directory: it takes the vote over (" + clusterPage + ")"})
	case len(q.Differ) > 0 && q.Waiting >= votersAfter:
		n.addFinding(health.Finding{Severity: health.Warn, Subject: "metadata quorum",
			Problem: fmt.Sprintf("cluster.seeds of %s differ from those of broker %d, which leads the metadata: the voters cannot change",
				brokersText(q.Differ), c.Self),
			Works: "the metadata can be changed",
			Stops: true,
			About: &health.About{Brokers: q.Differ},
			Remedy: "compare the lists, which `chronikd config check --config FILE` prints, correct those that are wrong, and restart " +
				"their brokers, one at a time (docs/cluster.md, Change the voters)"})
	case q.Voters < c.Seeds:
		n.addShared(health.Finding{Severity: health.Warn, Subject: "metadata quorum",
			Problem: fmt.Sprintf("only %d of %d seeds vote, so the metadata survive the failure of %s", q.Voters, c.Seeds,
				failures(q.Voters)),
			Works:  "the metadata can be changed",
			Holds:  startSeeds(c),
			Remedy: "start the other brokers of cluster.seeds; they become voters when they have copied the metadata (" + clusterPage + ")"})
	case q.Voters > c.Seeds && c.Seeds > 0:
		n.addShared(health.Finding{Severity: health.Warn, Subject: "metadata quorum",
			Problem: fmt.Sprintf("%d brokers vote, and cluster.seeds has %d: the votes have not moved", q.Voters, c.Seeds),
			Works:   "the metadata can be changed",
			Remedy:  "set the same list on all brokers that run (docs/cluster.md, Change the voters)"})
	case q.Fails && q.Waiting >= votersAfter:
		n.addFinding(health.Finding{Severity: health.Warn, Subject: "metadata quorum",
			Problem: "a change of its members fails: " + q.Waits,
			Works:   "the metadata can be changed",
			Remedy: "wait if a broker copies the metadata; the leader tries again every second, and its log names the brokers of the " +
				"change: check that they run and that the others reach them (docs/cluster.md, Change the voters)"})
	case q.Waits != "" && q.Waiting >= votersAfter:
		n.addFinding(health.Finding{Severity: health.Warn, Subject: "metadata quorum",
			Problem: "its members do not change as cluster.seeds and the registered brokers require: " + q.Waits,
			Works:   "the metadata can be changed",
			Remedy: "start the brokers that do not run, and correct the entries of cluster.seeds that the check seeds names " +
				"(docs/cluster.md, Change the voters)"})
	case q.Voters%2 == 0:
		n.addShared(health.Finding{Severity: health.Warn, Subject: "metadata quorum",
			Problem: fmt.Sprintf("the number of voters is even: %d survive the failure of %s, not more than %d do", q.Voters,
				failures(q.Voters), q.Voters-1),
			Remedy: "name 1, 3 or 5 brokers in cluster.seeds of all brokers (" + clusterPage + ")"})
	case q.Voters == 1:
		n.addShared(health.Finding{Severity: health.Note, Subject: "metadata quorum",
			Problem: "this cluster has one voter: if it loses its data directory, the metadata are lost",
			Remedy:  "name 3 or 5 brokers in cluster.seeds if the cluster has that many (" + clusterPage + ")"})
	}
}

// startSeeds is what must come before a broker is stopped while fewer brokers vote than there are
// seeds. A wrong entry may be why they are fewer. Its remedy is a restart, which must not wait for
// the votes that it brings.
func startSeeds(c *view.Cluster) string {
	if len(c.WrongSeeds) > 0 {
		return "start the other brokers of cluster.seeds, unless the check seeds names their entries"
	}
	return "start the other brokers of cluster.seeds"
}

// noMetadataLeader finds that the metadata have no leader, and why. Stops is not set, although the
// remedy of recovery shuts brokers down: several at once, and in the order that it says. The order
// of health.InOrder, one broker at a time, would contradict it.
func noMetadataLeader(f *Facts, n *notes) {
	c := f.Cluster
	q := &c.Quorum
	problem := "the cluster has no metadata leader: no election, topic or config can change"
	works := written(c)
	if storeFailed(q) {
		problem = "this broker follows no metadata leader and has no vote, because its metadata cannot be written: " + q.Failed
		works = "other brokers lead its partitions, if a majority of the voters is without this fault"
	}
	if len(q.Unreachable) > 0 {
		problem += fmt.Sprintf("; of %s, these cannot be reached from this broker: %s", text.Count(q.Voters, "voter"),
			listed(q.Unreachable, len(q.Unreachable)))
	}
	most := q.Voters/2 + 1
	remedy := fmt.Sprintf("start brokers until %d of %d voters reach each other", most, q.Voters)
	if n := len(q.Unreachable); n > 0 {
		remedy = fmt.Sprintf("start %s, or repair the network to %s, until %d of %d voters reach each other",
			strings.Join(q.Unreachable, ", "), themIt(n), most, q.Voters)
	}
	if len(q.Lost) > 0 {
		problem += fmt.Sprintf("; of %s, these run with other metadata directories than those that have the votes: %s",
			text.Count(q.Voters, "voter"), listed(q.Lost, len(q.Lost)))
	}
	if q.Recover != "" {
		problem += ", so a majority of the voters is gone, and waiting does not help"
		remedy = recovery(q)
	}
	if q.Failed != "" {
		if !storeFailed(q) {
			problem += "; this broker has no vote, because its metadata cannot be written: " + q.Failed
		}
		mend := "run `df -h` and " + kernelLog + " on this machine to see whether the disk of the metadata is full or broken, and " +
			"remove the cause: it votes again without a restart"
		if q.Voters-len(q.Unreachable)-len(q.Lost) < most {
			mend = remedy + ", and " + mend
		}
		remedy = mend
	}
	page := clusterPage
	if q.Recover != "" {
		page = recoverPage
	}
	var about *health.About
	if len(q.Away) > 0 {
		about = &health.About{Brokers: q.Away}
	}
	n.addFinding(health.Finding{Severity: health.Bad, Subject: "metadata quorum", Problem: problem, Works: works,
		Remedy: remedy + " (" + page + ")", Follows: f.apart(c.Self), Holds: mostVoters(most, q.Voters), About: about})
}

// wrongSeedAfter is longer than a broker takes that starts. It is also longer than a name leads to
// a former address, as in Kubernetes, where another broker may answer.
const wrongSeedAfter = 30 * time.Second

// checkSeeds finds entries of cluster.seeds that are wrong for long enough. One at which nothing
// answers may be the address of a broker that is registered with another one, so it counts only
// while all brokers are active.
func checkSeeds(f *Facts, n *notes) {
	c := f.Cluster
	all := leads(c) && len(c.Unreached) == 0 && !slices.ContainsFunc(c.Brokers, func(b view.Broker) bool { return b.State != "active" })
	for _, s := range c.WrongSeeds {
		if f.Now.Sub(s.Since) < wrongSeedAfter || s.Silent && !all {
			continue
		}
		problem := "its cluster.seeds has an address at which no broker of this cluster is: " + s.Err
		if s.Silent {
			problem = "its cluster.seeds has an address that no broker of this cluster has, and where no connection can be made: " + s.Err
		}
		n.addFinding(health.Finding{Severity: health.Warn, Subject: "cluster.seeds entry " + s.Address, Problem: problem,
			Works: "everything, as long as the other seeds lead to a majority of the voters; if all brokers get new addresses, the cluster " +
				"may not find itself",
			Stops: true,
			Remedy: "write the address of a broker of this cluster in its place, the same list on all brokers, or start the missing one " +
				"there; check the file with `chronikd config check --config FILE`, and restart this broker (" + clusterPage + ")"})
	}
}

// written returns what can be written without a metadata leader, when no ISR can change. Reads need
// the leader only.
func written(c *view.Cluster) string {
	const old = "; topics, leaders and states of brokers that this broker shows are those of its last contact with a metadata leader"
	switch n := c.Partitions - c.Apart; {
	case c.Partitions == 0:
		return strings.TrimPrefix(old, "; ")
	case n == 0:
		return "no partition can be written now: each waits for a broker that this one does not reach; brokers that run serve reads of what " +
			"they lead" + old
	default:
		return fmt.Sprintf("%d of %s can be written with acks=all, and read: this broker reaches all of their replicas in sync, which refuse "+
			"records only on a full or failing disk%s", n, text.Plural(c.Partitions, "partition", "partitions"), old)
	}
}

// mostVoters is what must come before a broker is stopped while the metadata have no majority to
// lose.
func mostVoters(most, all int) string {
	return fmt.Sprintf("bring back brokers until %d of %d voters reach each other", most, all)
}

// recovery returns what to do when most voters run with other metadata directories. They join when
// a voter that has the metadata is the only one. Of several, the command shows which one has the
// last changes.
func recovery(q *view.Quorum) string {
	has := slices.Clone(q.Whole)
	if q.Votes {
		has = append([]string{"this broker"}, has...)
	}
	on := strings.Join(has, ", ")
	if len(has) > 1 {
		on = "the one of " + on + " with the largest term and entry, which `chronikd recover --config FILE` shows for a stopped broker,"
	}
	return fmt.Sprintf("if the former directories of %s still exist, shut these brokers down and put the directories back; if they are lost for "+
		"good, shut down %s run %s with its configuration, start it, and the brokers that wait join; then `chronikctl topic elect --unclean` "+
		"elects leaders", listed(q.Lost, len(q.Lost)), strings.TrimSuffix(on, ",")+",", q.Recover)
}

// voteRemedy returns what to do about votes of unregistered brokers. A list of an even number of
// addresses would end the start of a broker, so the remedy names the number, which is
// never below three.
func voteRemedy(q *view.Quorum) string {
	from := brokersText(q.Unregistered)
	other := "write the address of a broker without a vote in the place of that of " + from + " in cluster.seeds"
	if fewer := (q.Voters - len(q.Unregistered) - 1) | 1; fewer < q.Voters && fewer >= 3 {
		other = fmt.Sprintf("set cluster.seeds to %d addresses without that of %s", fewer, from)
	}
	return fmt.Sprintf("if this stays for more than 15 s, start a broker with an empty data directory at the address of %s; or %s, "+
		"on all brokers, one at a time: check its file with `chronikd config check --config FILE`, restart it, and wait until `chronikctl broker list` "+
		"shows it active (docs/cluster.md, Change the voters)", from, other)
}

// hangingWorks returns what works while the metadata store of this broker does not respond. Its
// lease proves that it knows all changes until shortly before.
func hangingWorks(c *view.Cluster) string {
	if c.State == "active" && c.NoLease == 0 {
		return "it serves its partitions until the metadata change; then other brokers take over if a majority of the voters responds"
	}
	return "other brokers take over its partitions if a majority of the voters responds"
}
