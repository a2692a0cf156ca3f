package checks

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// mostPartitions is the maximum number of partitions with findings of their own.
const mostPartitions = 10

func servingChecks() []Check {
	return []Check{
		{Name: health.CheckServing, // a Monitor adds its finding: see Monitor.Enter
			Doc: "Whether clients are served and, if not, whether the broker recovers or drains."},
		{Name: checkResponding, // a Monitor adds its finding: see Monitor.Report
			Doc: "Whether the checks themselves finish. If not, a lock or a system call hangs."},
		{Name: "log_dir", run: checkLogDirs,
			Doc: "Whether each log directory was opened and accepts records. After a failed write or sync the broker reopens its journal."},
		{Name: checkOfRemoved, run: checkLost,
			Doc: "Whether the directories that the broker uses still exist: open files without a name are lost when the broker stops."},
		{Name: "stuck_disk", run: checkStuckDisks,
			Doc: "Journals with waiting records that make no progress: a write or an fdatasync hangs."},
		{Name: checkOfLogs, run: checkPartitions,
			Doc: "Partitions that cannot be written or read: their log is offline, takes no records, or could not be created."},
		{Name: checkOfDamage, run: checkDamage,
			Doc: "Partitions in which a read, or the reading of all segments, found damaged records: the offsets that cannot be read, and the next one that can."},
		{Name: "missing_files", run: checkMissing,
			Doc: "Partitions whose files were removed or cut while the broker uses them: they end when it stops."},
		{Name: health.CheckRefused, run: checkRefused,
			Doc: "Clients that the broker refuses or holds back, for long and in numbers, because of its configuration: limits of connections, failed handshakes and logins, access rules, quotas. Clients that refuse its certificate."},
		{Name: "metadata", run: checkMetadata,
			Doc: "Whether topics and configs can be changed, whether all parts of the broker follow them, and whether the copy of the metadata is complete."},
		{Name: "group", run: checkGroups,
			Doc: "Consumer groups that are not served because their offsets cannot be loaded, and groups that do not finish a rebalance. " +
				"Share groups that get no records of a partition, or whose dead letters cannot be copied."},
		{Name: "transaction", run: checkTransactions,
			Doc: "Transactional ids that are not served because they cannot be loaded, and transactions that do not end because partitions do not take their markers."},
	}
}

// kernelLog is the command that shows the kernel's messages about disks.
const kernelLog = "`journalctl -k -n 50`"

// checkResponding is the check that reports hung checks.
const checkResponding = "responding"

func checkLogDirs(f *Facts, n *notes) {
	works := func(d view.Dir) bool { return d.Error == "" }
	notReady := len(f.Dirs)+len(f.Unopened) > 0 && !slices.ContainsFunc(f.Dirs, works)
	finding := func(path, problem, remedy string, stops bool, follows string) {
		x := health.OfDir(path)
		x.Severity, x.Problem, x.Remedy, x.Stops, x.Follows, x.NotReady = health.Bad, problem, remedy, stops, follows, notReady
		if !notReady {
			x.Works = "partitions in the other log directories can be written and read"
		}
		n.addFinding(x)
	}
	for _, d := range f.Dirs {
		n.see(fmt.Sprintf("log directory %s with %d partitions", d.Path, d.Logs))
		if d.Error != "" {
			remedy := "run " + kernelLog + " to see what the kernel reports about the disk; the broker reopens the directory " +
				"automatically when the disk works again (docs/operations.md, A damaged disk)"
			if d.Full {
				remedy = freeSpace + "the broker then reopens the directory automatically (docs/operations.md, A full disk)"
			}
			finding(d.Path,
				fmt.Sprintf("it accepts no records, so none of its %d partitions can be written: %s", d.Logs, d.Error),
				remedy, false, f.cause(d.Path, d.Full))
		}
	}
	for i := range f.Dirs {
		f.arrivals(&f.Dirs[i], n)
	}
	for _, d := range f.Unopened {
		var in []string
		for _, p := range f.Partitions {
			if p.Offline && p.Dir == d.Path {
				in = append(in, p.String())
			}
		}
		what := "its partitions can be neither written nor read"
		if f.several() { // others may serve them: findings about the partitions say so
			what = "the replicas in it are offline"
		}
		finding(d.Path, fmt.Sprintf("it could not be opened, and %s%s: %s", what, named(in), d.Error),
			d.Remedy+"; then restart the broker, which opens it again (docs/operations.md, A damaged disk)", true, "")
	}
}

// arrivals reports the logs that move to a directory and stand still.
func (f *Facts) arrivals(d *view.Dir, n *notes) {
	var still []string
	why := ""
	for i := range d.Arriving {
		if x := &d.Arriving[i]; x.Error != "" {
			still, why = append(still, x.String()), x.Error
		}
	}
	if len(still) == 0 {
		return
	}
	n.addFinding(health.Finding{Severity: health.Warn, Subject: "moves to " + d.Path,
		Problem: fmt.Sprintf("%s cannot be moved there%s: %s", text.Count(len(still), "log"), named(still), why),
		Works:   "the partitions are used where they are",
		Remedy: "remove the cause, and the broker continues automatically; or cancel the moves with " +
			health.Command("chronikctl", "broker", "move-logs", "BROKER", "--cancel")})
}

// repair returns the remedy of a log directory with damaged files, which stops the broker. Its
// commands are complete and in backticks, so that they can be copied; scripts/drill.sh runs them.
func (f *Facts) repair(p *view.Log) string {
	dir, before, more, one := p.Dir, "", []string(nil), &view.Partitions{Count: 1, Names: []string{p.String()}}
	if p.Replicated {
		before = "bring back the other brokers with replicas of it, which copy nothing from here; if none of them is whole, "
	}
	save := f.saving(p)
	if f.Cluster != nil { // other partitions of the directory have replicas, which replace what a repair leaves of these
		more = []string{"--last-copy"}
	}
	if dir == "" && !p.Replicated && f.several() {
		return "put the log directory that had it back, and restart the broker; if it is lost, run `chronikctl topic move " + p.Topic + ":" +
			strconv.Itoa(int(p.Partition)) + " BROKER`, which ends with an error because there is nothing to copy, and then " +
			elect(one) + ": the partition begins without its records, and the others of the topic keep theirs " +
			"(docs/operations.md, A damaged disk)"
	}
	if dir == "" { // there is nothing that a repair could put together
		back := before + "put the log directory that had it back, and restart the broker; if it is lost, "
		if p.Replicated { // a broker that was stopped later may have kept what it had in its journal
			back += "stop the broker, and run " + logCommand("verify", f.whole()) +
				", which names quarantined records of it; if there are any, run " +
				logCommand("repair", f.whole(), append([]string{"--backup", f.backup("")}, more...)...) + ", start the broker, and run " +
				elect(one) + ", which elects the longest log; only if no broker with a replica has such records, " +
				startEmpty(one) + "; if all brokers have a replica, "
		}
		return back + "run " + health.Command("chronikctl", "topic", "delete", p.Topic) +
			", which asks before it deletes all partitions of the topic, and create the topic again (docs/operations.md, A damaged disk)"
	}
	at := []string{"--dir", f.absolute(dir)}
	for _, d := range f.Dirs {
		if d.Path == dir && d.JournalApart {
			at = append(at, "--journal", f.absolute(d.Journal))
		}
	}
	if len(save.restore) > 0 && len(f.Dirs)+len(f.Unopened) == 1 { // the metadata name the other replicas
		at = f.whole()
	}
	repair := slices.Concat([]string{"--backup", f.backup(dir)}, more, save.restore)
	lists := logCommand("verify", at) + ", which lists the damage, and "
	if len(save.restore) > 0 {
		lists = logCommand("repair", at, append(slices.Clone(repair), "--dry-run")...) +
			", which lists what the repair would lose, and for each range that another broker may have, in any partition of the directory, " +
			"the command that saves it there: run these, and give their files to both commands, too; then run "
	}
	return before + save.before + "stop the broker, run " + lists + logCommand("repair", at, repair...) +
		", which asks before it changes anything, then start the broker (docs/operations.md, A damaged disk)"
}

// logCommand returns a chronikctl log command with the flags that name the directories, and more.
func logCommand(name string, at []string, more ...string) string {
	return health.Command(slices.Concat([]string{"chronikctl", "log", name}, at, more)...)
}

// named lists the first few partitions or topics in parentheses, or returns "" if there are none.
func named(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return " (" + listed(all, len(all)) + ")"
}

// listed lists the first few of count names; the others may be unknown.
func listed(names []string, count int) string {
	names = names[:min(len(names), view.MostNamed)]
	text := strings.Join(names, ", ")
	if n := count - len(names); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

func checkPartitions(f *Facts, n *notes) {
	var all []view.Log
	copies, formers := 0, 0
	for _, p := range f.Partitions {
		if p.Former != nil {
			if formers++; formers <= mostPartitions {
				n.addFinding(f.former(&p))
			}
		}
		if p.Copy != nil {
			if copies++; copies <= mostPartitions {
				n.addFinding(copied(&p))
			}
		}
		if (p.Offline || p.Refuses > 0 && f.Serving) && !f.dirFailed(p.Where()) { // a stop closes logs
			all = append(all, p)
		}
	}
	if r := f.Renewed; r.N > 0 {
		n.addFinding(health.Finding{Severity: health.Note, Subject: health.ThisBroker,
			Problem: fmt.Sprintf("%s copied again because stored bytes were damaged or missing; the last one was %s at %s: %s",
				text.Plural(r.N, "replica was", "replicas were"), r.Last, r.At.UTC().Format(time.RFC3339), r.Why),
			Works: "they have all records of their leaders",
			Remedy: "find the cause in the kernel's log and in the disk's SMART values, and replace the disk if it happens again; " +
				"the note ends a day after the last copy, and with the process"})
	}
	if more := formers - mostPartitions; more > 0 {
		n.add(health.Warn, "partitions", fmt.Sprintf("%d more have a replaced log that may have records which no replica has", more),
			"follow the findings above; others appear when their directories are removed")
	}
	if copies > mostPartitions {
		n.add(health.Note, "partitions", fmt.Sprintf("%d more are copied again", copies-mostPartitions), "wait")
	}
	groups := together(all)
	for i, g := range groups {
		if i == mostPartitions {
			left := 0
			for _, g := range groups[i:] {
				left += len(g)
			}
			n.addFinding(
				health.Finding{
					Severity: health.Bad,
					Subject:  "partitions",
					Problem:  fmt.Sprintf("%d more cannot be written or read", left),
					Remedy:   "follow the findings above; `chronikctl topic describe TOPIC -o wide` lists the partitions of a topic with their errors",
				},
			)
			return
		}
		n.addFinding(f.unusable(g))
	}
}

// together returns logs that cannot be used, in their order, with those in one group that have the
// same cause and remedy.
func together(logs []view.Log) (groups [][]view.Log) {
	type key struct {
		dir, cause string
		// What distinguishes the remedies.
		offline, elsewhere, renews, replicated, asks, reopens, retried bool
	}
	at := map[key]int{}
	for i := range logs {
		p := &logs[i]
		k := key{p.Where(), p.Cause, p.Offline, p.Elsewhere, p.Renews, p.Replicated, p.Asks, p.Reopens, p.Retried}
		j, ok := at[k]
		if !ok || p.Cause == "" || p.Asks || p.Renews && !p.Elsewhere { // these remedies are about one partition
			j = len(groups)
			at[k], groups = j, append(groups, nil)
		}
		groups[j] = append(groups[j], *p)
	}
	return groups
}

// unusable returns the finding about logs of a group of together. The error of the first stands for
// those of the others.
func (f *Facts) unusable(group []view.Log) health.Finding {
	p, it, replica := &group[0], "it", "the replica on this broker is"
	x := health.OfLog(p.String())
	x.Works = "the other partitions of the topic can be written and read"
	if len(group) > 1 {
		list := view.Partitions{}
		for i := range group {
			list.Add(group[i].Topic, group[i].Partition)
		}
		x, it = health.OfLogs(p.Where(), list.Names), partitionsText(&list)
		replica = "the replicas of " + it + " on this broker are"
		x.Works = "the other partitions can be written and read"
	}
	x.Severity, x.Problem = health.Bad, it+" can be neither written nor read: "+p.Error
	if p.Elsewhere {
		x.Severity, x.Problem, x.Works = health.Warn, replica+" offline: "+p.Error, servedElsewhere
	}
	if p.Refuses > 0 && !p.Offline {
		x.Problem = it + form(len(group), " accepts", " accept") + " no records on this broker: " + p.Error
		if !p.Elsewhere {
			x.Works = form(len(group), "its", "their") + " records can be read"
		}
	}
	x.Remedy, x.Stops = f.mend(p, len(group))
	x.Follows = f.cause(p.Where(), p.Full)
	return x
}

// form returns one for a count of 1, and otherwise many.
func form(count int, one, many string) string {
	if count == 1 {
		return one
	}
	return many
}

// mend returns what to do about logs with the same cause, of which p is the first, and whether that
// stops the broker.
func (f *Facts) mend(p *view.Log, count int) (remedy string, stops bool) {
	logs := form(count, "the log", "the logs")
	switch {
	case p.Full && (p.Retried || p.Reopens || p.Refuses > 0):
		return freeSpace + "the broker then opens " + logs + " automatically within half a minute (docs/operations.md, A full disk)", false
	case p.Retried:
		return "remove the cause; the broker then creates " + logs + " automatically within half a minute", false
	case p.Reopens:
		return "remove the cause; the broker then opens " + logs + " automatically within half a minute", false
	case p.Asks:
		return "see the findings about the metadata: the broker asks for that epoch until the metadata have it, and then leads the " +
			"partition", false
	case p.Refuses > 0 && !p.Offline:
		return "remove the cause; the broker repairs " + logs + " automatically, and tries again within half a minute", false
	case p.Renews:
		return renewal(p), false
	case p.Elsewhere:
		return "remove the cause, and restart the broker", true
	case count > 1 && p.Dir == "":
		return f.repair(p) + "; likewise for the others", true
	}
	return f.repair(p), true
}

const (
	servedElsewhere = "the other replicas serve all records"
	renews          = "wait: the broker replaces the log and copies the partition again within seconds (docs/replication.md, A damaged replica)"
)

// renewal returns what to do about a damaged log that is to be copied again. It stays as it is
// while the leader's is damaged, too.
func renewal(p *view.Log) string {
	if p.Elsewhere {
		return renews
	}
	if p.Leader >= 0 {
		return fmt.Sprintf("remove and repair nothing of it on this broker; follow the finding of broker %d, its leader, which first saves "+
			"what this broker has (docs/replication.md, A damaged replica)", p.Leader)
	}
	return "remove and repair nothing of it on this broker; follow the finding of the partition's leader, which " +
		health.Command("chronikctl", "topic", "describe", p.Topic) + " names (docs/replication.md, A damaged replica)"
}

// former returns the finding about a replaced log that may have records which no replica has.
func (f *Facts) former(p *view.Log) health.Finding {
	dirs := []string{"--dir", f.absolute(path.Dir(p.Former.Path))}
	if p.Dir != "" && p.Dir != path.Dir(p.Former.Path) { // that has the log, and the name of the topic
		dirs = append(dirs, "--dir", f.absolute(p.Dir))
	}
	dump := logCommand("dump", dirs, "--topic", p.Topic, "--partition", strconv.Itoa(int(p.Partition)), "--replaced", "--for-produce")
	x := health.OfLog(p.String())
	x.Severity = health.Warn
	x.Problem = fmt.Sprintf("the damaged log that this broker replaced may have records that no replica has, because a later leader lacked "+
		"records; its %s are in %s", text.Bytes(p.Former.Bytes), p.Former.Path)
	x.Works, x.Stops = "its records can be read, and "+newRecords(p), true
	if p.Leader < 0 {
		x.Works = "the other partitions of the topic can be written and read"
	}
	x.Remedy = dump + " prints what can be read of what this broker's log lacks; produce again what consumers need and " +
		"was not written again after a repair, then stop the broker, remove that directory, and start " +
		"the broker (docs/replication.md, A damaged replica)"
	return x
}

// copied returns the finding about a partition that is copied again.
func copied(p *view.Log) health.Finding {
	x := health.OfLog(p.String())
	x.Severity, x.Works = health.Note, servedElsewhere
	x.Remedy = "wait, and do not stop another broker with a replica of it now (docs/replication.md, A damaged replica)"
	c := p.Copy
	if !p.Elsewhere && c.Leader >= 0 {
		x.Severity, x.Works = health.Bad, "the former log of this broker is kept; the leader serves the records that it can read"
		x.Problem = fmt.Sprintf("it must be copied again from broker %d, whose log is damaged, too", c.Leader)
		x.Remedy = fmt.Sprintf("remove no directory of this broker; follow the finding of broker %d about the partition "+
			"(docs/replication.md, A damaged replica)", c.Leader)
		x.Problem += "; " + copyText(c)
		return x
	}
	switch {
	case c.Leader < 0:
		x.Severity, x.Problem = health.Warn, "it must be copied again, and has no leader now"
	case c.Still:
		x.Severity, x.Problem = health.Warn, fmt.Sprintf("it must be copied again from broker %d, and nothing arrives", c.Leader)
		x.Remedy = fmt.Sprintf("the logs of this broker and of broker %d name the reason (docs/replication.md, A damaged replica)", c.Leader)
	default:
		x.Problem = fmt.Sprintf("it is copied again from broker %d", c.Leader)
	}
	x.Problem += "; " + copyText(c)
	return x
}

// copyText returns how much of a copy is here, and why it is made.
func copyText(c *view.Copy) string {
	here := text.Bytes(c.Bytes)
	if c.Want > 0 {
		here = fmt.Sprintf("%d %%, %s,", c.Have*100/c.Want, here)
	}
	return here + " are here: " + c.Why
}

// Thresholds of the checks of journals and groups without progress.
const (
	stuckAfter  = 3 * time.Second // longer than an fdatasync on a busy disk
	loadedAfter = 3 * time.Second // enough to load most coordinators
	mostGroups  = 10              // how many groups are named
)

func checkStuckDisks(f *Facts, n *notes) {
	for _, d := range f.Dirs {
		if d.Error != "" || d.Waiting < stuckAfter {
			continue
		}
		n.addFinding(health.Finding{Severity: health.Bad, Subject: "disk of " + d.Journal, Stops: true,
			Problem: fmt.Sprintf(
				"records wait for the journal, and none has become durable for more than %v: a write or an fdatasync hangs",
				stuckAfter,
			),
			Works: "records in memory can be read, and partitions in other log directories can be written and read",
			Remedy: "run " + kernelLog +
				" to see what the kernel reports about the disk; the broker resumes when the disk responds, and if it never does, replace the disk and " +
				"restart the broker (docs/operations.md, A damaged disk)"})
	}
}

// coordinated is what the coordinators of a topic serve.
type coordinated struct{ topic, what, state, doc string }

// checkCoordinators notes the coordinators of a topic that do not serve what they should. A fault
// of a broker concerns many of them, so those that load are one finding, and those that fail
// another.
func checkCoordinators(f *Facts, n *notes, of coordinated) {
	var late [2][]Coordinator // failed, and loading
	for _, c := range f.Coordinators {
		name := fmt.Sprintf("%s-%d", c.Topic, c.Index)
		reported := slices.ContainsFunc(f.Partitions, func(p view.Log) bool { return p.Offline && p.String() == name })
		if c.Topic != of.topic || reported || f.Now.Sub(c.Since) < loadedAfter {
			continue
		}
		i := 0
		if !c.Failed {
			i = 1
		}
		late[i] = append(late[i], c)
	}
	for _, list := range late {
		if len(list) > 0 {
			n.addFinding(unserved(list, of))
		}
	}
}

// unserved is the finding about coordinators of a topic, all of which fail or load.
func unserved(list []Coordinator, of coordinated) health.Finding {
	first, since, all := &list[0], list[0].Since, view.Partitions{}
	for _, c := range list {
		all.Add(c.Topic, c.Index)
		if c.Since.Before(since) {
			since = c.Since
		}
	}
	x := health.Finding{
		Severity: health.Warn,
		Subject:  fmt.Sprintf("%s of %s-%d", of.what, first.Topic, first.Index),
		Problem:  "they are not served: their " + of.state + " have been loading since " + since.UTC().Format(time.RFC3339),
		Works:    "other " + of.what + " are served",
		Remedy:   "wait: a load takes as long as the disk needs to read the partition",
	}
	if len(list) > 1 {
		x.Subject = of.what + " of " + first.Topic
		x.Problem = fmt.Sprintf("those of %s are not served: their %s have been loading, the first ones since %s",
			partitionsText(&all), of.state, since.UTC().Format(time.RFC3339))
	}
	if first.Failed {
		x.Severity = health.Bad
		x.Remedy = "remove the cause, which is in the broker's log; the broker retries the load automatically (" + of.doc + ")"
	}
	return x
}

func checkTransactions(f *Facts, n *notes) {
	checkCoordinators(f, n, coordinated{"__transaction_state", "transactional ids", "states", "docs/transactions.md"})
	checkHeld(f, n)
	for i := range f.Undone {
		if i == mostGroups {
			n.add(health.Bad, "transactions", fmt.Sprintf("%d more do not end", len(f.Undone)-i),
				health.Command("chronikctl", "cluster", "health")+" names them when the first ones have ended")
			return
		}
		n.addFinding(undone(&f.Undone[i]))
	}
}

func undone(u *view.Undone) health.Finding {
	decision := "aborted"
	if u.Commit {
		decision = "committed"
	}
	x := health.Finding{Severity: health.Bad, Subject: "transaction of " + u.ID,
		Problem: "it was " + decision + " at " + u.Since.UTC().Format(time.RFC3339) + ", and "}
	if u.Missing == 0 {
		x.Problem += "all partitions have the marker, but " + u.Partition + " does not accept the record that ends it"
		x.Works = "the decision is final, and consumers see it; the producer cannot begin another transaction"
		x.Remedy = "remove the cause, which the findings about " + u.Partition + " and its disk name; the record follows automatically " +
			"(docs/transactions.md)"
		return x
	}
	cause := "has not answered"
	if u.Error != "" {
		cause = "answers " + u.Error
	}
	x.Problem += text.Plural(u.Missing, "partition lacks", "partitions lack") + " the marker: " + u.Partition + " " + cause
	x.Works = "the decision is final; consumers with read_committed wait in these partitions, and the producer cannot begin another transaction"
	x.Remedy = "bring the leaders of these partitions back; the markers follow automatically (docs/transactions.md)"
	return x
}

func checkGroups(f *Facts, n *notes) {
	checkCoordinators(f, n, coordinated{"__consumer_offsets", "groups", "offsets", "docs/groups.md"})
	checkCoordinators(f, n, coordinated{"__share_group_state", "share groups", "states", "docs/share-groups.md"})
	checkShares(f, n)
	for i, g := range f.Rebalancing {
		if i == mostGroups {
			n.add(health.Warn, "groups",
				fmt.Sprintf("%d more do not finish a rebalance", len(f.Rebalancing)-i),
				health.Command("chronikctl", "group", "list")+" shows their states")
			return
		}
		x := health.OfGroup(g.ID)
		x.Severity = health.Warn
		x.Problem = fmt.Sprintf("it has been rebalancing (%s) at least since %s: a member keeps joining and leaving, or does not rejoin",
			g.State, g.Since.UTC().Format(time.RFC3339))
		x.Remedy = health.Command("chronikctl", "group", "describe", g.ID) + " shows its members; check the logs of those that change"
		n.addFinding(x)
	}
}

// dirFailed reports whether a log directory has a finding of its own, which covers its partitions.
func (f *Facts) dirFailed(path string) bool {
	return slices.ContainsFunc(f.Dirs, func(d view.Dir) bool { return d.Path == path && d.Error != "" }) ||
		slices.ContainsFunc(f.Unopened, func(d view.Dir) bool { return d.Path == path })
}

func checkDamage(f *Facts, n *notes) {
	count := 0
	for _, p := range f.Partitions {
		if len(p.Damages) == 0 {
			continue
		}
		if count++; count > mostPartitions {
			continue
		}
		first := p.Damages[0]
		problem := fmt.Sprintf("%s cannot be read: %s holds no valid record batches there", offsets(first), first.Where)
		works := fmt.Sprintf("the records before the damage and from offset %d on can be read, and %s", first.Next, newRecords(&p))
		read := []string{"--from", strconv.FormatInt(first.Next, 10)}
		what := " reads the records after the damage"
		if more := len(p.Damages) - 1; more > 0 {
			ranges := "1 more range"
			if more > 1 {
				ranges = fmt.Sprintf("%d more ranges", more)
			}
			problem = fmt.Sprintf("%s and %s cannot be read; the first damage is in %s", offsets(first), ranges, first.Where)
			works, read, what = "all other records can be read, and "+newRecords(&p), []string{
				"--skip-damaged",
			}, " reads all other records"
		}
		if p.Leader < 0 {
			works = "the other partitions of the topic can be written and read"
		}
		x := health.OfLog(p.String())
		if p.Elsewhere || p.Renews {
			x.Severity, x.Problem, x.Works = health.Warn, "the replica on this broker is damaged: "+problem, servedElsewhere
			x.Remedy = renewal(&p)
			if !p.Elsewhere {
				x.Works = "another replica leads it, which is damaged, too"
			}
			n.addFinding(x)
			continue
		}
		read = append([]string{"chronikctl", "consume", p.Topic, "-p", strconv.Itoa(int(p.Partition))}, read...)
		x.Severity, x.Problem, x.Works = health.Bad, problem, works
		x.Remedy, x.Stops = "to repair, "+f.repair(&p), true
		if p.Leader >= 0 {
			x.Remedy = health.Command(read...) + what + "; " + x.Remedy
		} else {
			x.Problem += "; the partition has no leader, so clients neither write nor read it"
		}
		n.addFinding(x)
	}
	if more := count - mostPartitions; more > 0 {
		n.addFinding(health.Finding{Severity: health.Bad, Subject: "partitions", Problem: fmt.Sprintf("%d more have damaged records", more),
			Remedy: "follow the findings above; `chronikctl topic describe TOPIC -o wide` lists the partitions of a topic with their errors"})
	}
}

func checkMissing(f *Facts, n *notes) {
	count := 0
	for i := range f.Partitions {
		p := &f.Partitions[i]
		if p.Missing == "" {
			continue
		}
		if count++; count > mostPartitions {
			continue
		}
		x := health.OfLog(p.String())
		x.Severity, x.Problem, x.Follows = health.Bad, p.Missing, f.cause(p.Dir, false)
		x.Works = "what is open or in memory is written and read until the broker stops"
		x.Remedy = "let the broker run until its records are elsewhere: " + f.elsewhere(p) +
			" (docs/operations.md, Files that are removed)"
		if p.Elsewhere {
			x.Severity, x.Works = health.Warn, servedElsewhere+", unless their files were removed, too, which their brokers report "+
				"within two minutes; this broker copies the partition again"
			x.Remedy = "find out who removes files of the broker, and let all brokers with a replica run until the copy is complete"
		}
		n.addFinding(x)
	}
	if more := count - mostPartitions; more > 0 {
		n.add(health.Bad, "partitions", fmt.Sprintf("%d more have files that were removed or cut", more), "follow the findings above")
	}
}

// elsewhere is how the records of a partition get to where they outlive this process.
func (f *Facts) elsewhere(p *view.Log) string {
	if c := f.Cluster; c != nil && len(c.Brokers) > len(p.Replicas) {
		return health.Command("chronikctl", "topic", "move", p.Topic+":"+strconv.Itoa(int(p.Partition)), "BROKER") +
			" copies them to another broker"
	}
	return health.Command("chronikctl", "consume", p.Topic, "-p", strconv.Itoa(int(p.Partition)), "-o", "json") +
		" prints them, and what it prints can be produced again"
}

// offsets formats a range for people, with both ends included.
func offsets(d view.Damage) string {
	if d.Next == d.From+1 {
		return fmt.Sprintf("offset %d", d.From)
	}
	return fmt.Sprintf("offsets %d to %d", d.From, d.Next-1)
}

// lacking is the finding that a part of this broker does not follow the metadata.
func (f *Facts) lacking(l *Lacking) health.Finding {
	x := health.Finding{Severity: health.Bad, Subject: "metadata of this broker, " + l.Part, NotReady: true, Stops: true,
		Problem: fmt.Sprintf("this part lacks the changes since %s: %s", l.Since.UTC().Format(time.RFC3339), l.Error),
		Works:   "the other parts follow the metadata; this one tries again every second, and with each change",
		Remedy: "stop no other broker now; remove the cause that the error names, or restart this broker; if it stays, report the error, " +
			"which is in the log"}
	if l.Replaced {
		if f.Cluster != nil {
			x.Follows = f.twins(f.Cluster.Self)
		}
		x.Works, x.Stops = "the other brokers lead what has another replica in sync", false
		x.Remedy = "end the other process, which may run on a copy of this data directory; this one then registers again and follows, " +
			"without a restart, or ends if both have registered by turns"
	}
	if f.several() {
		x.Remedy += " (" + clusterPage + ")"
	}
	return x
}

func checkMetadata(f *Facts, n *notes) {
	m := f.Metadata
	if m.Dir == "" {
		return
	}
	seen := "metadata in " + m.Dir
	if m.Copy != "" {
		seen += ", copy in " + m.Copy
	}
	n.see(seen)
	unchanged, works := "topics and configs cannot be changed", "records can be written and read"
	if f.several() {
		unchanged = "this broker applies no changes of topics and configs"
		works = "other brokers change them, and lead its partitions, if a majority of the voters is without this fault"
	}
	// Of three brokers, the finding about the quorum has the error when the leader is unknown.
	if m.Failed != "" && (f.Cluster == nil || f.Cluster.Quorum.NoLeader < noLeaderAfter || !storeFailed(&f.Cluster.Quorum)) {
		n.addFinding(
			health.Finding{
				Severity: health.Warn,
				Subject:  "metadata in " + m.Dir,
				Follows:  f.cause(m.Dir, m.Full),
				Problem:  unchanged + ": " + m.Failed,
				Works:    works,
				Remedy: "run " + health.Command(
					"df",
					"-h",
					f.absolute(m.Dir),
				) + " and " + kernelLog + " to see whether the disk is full or broken, and remove the cause; the next change retries " +
					"(docs/operations.md, A damaged disk)",
			},
		)
	}
	if m.Hanging >= stuckAfter {
		n.addFinding(health.Finding{Severity: health.Warn, Subject: "metadata in " + m.Dir, Stops: true,
			Problem: unchanged + ": a write or an fdatasync in it hangs",
			Works:   works,
			Remedy: "run " + kernelLog + " to see what the kernel reports about the disk; the broker resumes when the disk responds, and " +
				"if it never does, replace the disk and restart the broker (docs/operations.md, A damaged disk)"})
	}
	for i := range m.Lacking {
		n.addFinding(f.lacking(&m.Lacking[i]))
	}
	if m.LostVote {
		n.addFinding(health.Finding{Severity: health.Warn, Subject: "metadata in " + m.Dir, NotReady: true,
			Problem: "this broker does not vote yet in the place of its former metadata directory, which is lost; " +
				"if another broker loses its directory now, no majority may be left",
			Works: "clients are served",
			Holds: unmovedVote,
			Remedy: "wait a few seconds before another broker is stopped; " + health.Command("chronikctl", "cluster", "describe") +
				" shows the voters (docs/replication.md, Losing a metadata directory)"})
	}
	if m.Behind != "" {
		n.addFinding(health.Finding{Severity: health.Warn, Subject: "copy of the metadata in " + m.Copy,
			Problem: "it lacks the latest changes of topics and configs: " + m.Behind,
			Works:   "topics and configs can be changed; the metadata itself is whole",
			Remedy: "run " + health.Command(
				"df",
				"-h",
				f.absolute(m.Copy),
			) + " and " + kernelLog + " to see whether the disk is full or broken, and remove the cause; the broker then completes " +
				"the copy automatically (docs/operations.md, Lost metadata)"})
	}
}
