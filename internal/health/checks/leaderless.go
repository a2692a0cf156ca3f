package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

func checkLeaderless(f *Facts, n *notes) {
	c := f.Cluster
	if c == nil || !f.Serving {
		return
	}
	for _, l := range c.Leaderless {
		brief := l.Why == view.Elected || l.Why == view.Comparison
		if brief && l.For < noLeaderAfter || f.away(&l) {
			continue
		}
		on := brokersText(l.Brokers)
		x := health.Finding{Severity: health.Bad, Subject: "partitions without a leader",
			Problem: partitionsText(&l.Partitions) + " cannot be written or read: ", Works: "the other partitions can be written and read"}
		unclean := orUnclean(&l) + " (" + clusterPage + ")"
		switch l.Why {
		case view.ForBrokers:
			x.Subject += ", on " + on
			x.Problem += "only " + on + " may have all acknowledged records, and " + isAre(len(l.Brokers)) + " not active"
			x.Remedy = "start " + on + " with the data directories that " + theyIt(len(l.Brokers)) + " had" + unclean
		case view.ForDirectory:
			x.Subject += ", on " + on
			x.Problem += "their acknowledged records are in log directories or logs of " + on + " that are offline, damaged or missing"
			x.Stops = true
			x.Remedy = "repair or put back the log directories of " + on + ", and restart it" + unclean +
				"; if no broker has a log or quarantined records of them (`chronikctl log verify`), " + startEmpty(&l.Partitions) +
				"; if the topic was deleted after the backup that was restored, `chronikctl topic delete TOPIC`"
			if x.Follows = f.onlyAllFull(l.Brokers); x.Follows != "" {
				x.Problem = partitionsText(&l.Partitions) + " cannot be written or read: log directories of " + on + " are full"
				x.Stops = false
				x.Remedy = freeSpace + "the partitions then have leaders within half a minute, without a restart (docs/operations.md, A full disk)"
			}
		case view.Lossy:
			x.Problem += "their last replica in sync lost records in a power failure, as their durability profile permits"
			x.Remedy = "start the other brokers that have replicas of them: the controller elects the replica with the most records (" + clusterPage + ")"
		case view.Recovered:
			problem, remedy := recovered(&l)
			x.Problem, x.Remedy = x.Problem+problem, remedy
		case view.Comparison:
			x.Problem += "the replica that is there came back after an unclean stop, and the controller waits up to 10 s for " + on +
				" to compare the logs"
			x.Remedy = "wait, or start " + on + " (" + clusterPage + ")"
		case view.Elected:
			x.Problem += "the controller is electing leaders"
			x.Remedy = "wait; if this stays, the log of " + leaderText(c) + " names the reason (" + clusterPage + ")"
		}
		n.addShared(x)
	}
}

// recovered is why partitions wait for an operator after the metadata were recovered, and what
// their election may lose: what is only in replicas that do not take part.
func recovered(l *view.Leaderless) (problem, remedy string) {
	problem = "the metadata were recovered and do not have the replicas in sync, so an operator elects their leaders; "
	remedy = "run `chronikctl topic elect --unclean`: of each partition, the replica with the latest leader epoch and the most records leads"
	switch on := brokersText(l.Brokers); {
	case len(l.Brokers) > 0:
		problem += "their replicas on " + on + " cannot take part: " + isAre(len(l.Brokers)) + " not active, or their logs or " +
			"directories have faults"
		remedy = "start " + on + ", or follow the findings of " + on + "; an election without " + themIt(len(l.Brokers)) +
			" may lose acknowledged records. Then " + remedy
	case l.Lossless:
		problem += "all of their replicas are there, and no broker reports a damaged log of them"
		remedy += ". So no acknowledged record is lost that a replica still has. All may lack one after a loss of power, under a profile " +
			"that acknowledges before the sync, or if the recovered metadata lack a change of replicas. Nothing records that, so the " +
			"election leaves a finding, until `chronikctl topic elect --confirm-loss`"
	default:
		problem += "all of their replicas are there, but below feature level 4 a longer log may lack acknowledged records"
	}
	return problem, remedy + ". If no broker has a log of them, " + startEmpty(&l.Partitions) +
		"; if the topic was deleted before, `chronikctl topic delete TOPIC` (" + recoverPage + ")"
}

// startEmpty is what lets partitions begin again whose records are lost. The other partitions of
// their topics have theirs, which a deletion of the topic would delete.
func startEmpty(p *view.Partitions) string {
	return "let them begin without their records: run " + elsewhere(p) + " for each, with a broker that has no replica of it, which " +
		"reports that there is nothing to copy, and then " + elect(p) + "; the other partitions of the topic keep their records"
}

// elect is the command that elects leaders for partitions although records may be lost. It names
// them: others may wait for a broker that comes back, and would lose what only that has.
func elect(p *view.Partitions) string {
	command := "chronikctl topic elect"
	if p.Count > len(p.Names) {
		command += " TOPIC:PARTITIONS"
	} else {
		for _, name := range p.Names {
			if i := strings.LastIndexByte(name, '-'); i > 0 {
				command += " " + name[:i] + ":" + name[i+1:]
			}
		}
	}
	return "`" + command + " --unclean`"
}

// away reports whether partitions wait for one broker, whose own finding then names them: it is not
// active.
func (f *Facts) away(l *view.Leaderless) bool {
	return l.Why == view.ForBrokers && len(l.Brokers) == 1 && !slices.Contains([]string{"", "active"}, f.Cluster.Of(l.Brokers[0]).State)
}

// orUnclean ends the remedy of partitions that wait for brokers or their directories.
func orUnclean(l *view.Leaderless) string {
	if !l.Sole {
		return "; if they are lost for good, " + elect(&l.Partitions) + " makes another replica the leader and loses the records " +
			"that only they have"
	}
	return fmt.Sprintf("; if they are lost for good, delete the topics with `chronikctl topic delete TOPIC`, or let the partitions begin "+
		"without their records: run %s for each, which reports that there is nothing to copy, and then %s", elsewhere(&l.Partitions),
		elect(&l.Partitions))
}

// leaderlessOn adds to the finding about a broker that is not active the partitions that wait for
// it.
func (f *Facts) leaderlessOn(broker int32, x *health.Finding) {
	for i := range f.Cluster.Leaderless {
		l := &f.Cluster.Leaderless[i]
		if !f.away(l) || l.Brokers[0] != broker {
			continue
		}
		x.Severity, x.Works = health.Bad, "the other partitions can be written and read"
		x.Problem += fmt.Sprintf("; %s cannot be written or read, because only it may have all acknowledged records",
			partitionsText(&l.Partitions))
		if link := f.linkRemedy(broker); link == "" {
			x.Remedy = fmt.Sprintf("start broker %d with the data directories that it had, or repair its network", broker) + orUnclean(l) +
				" (" + clusterPage + ")"
		} else { // its process runs
			x.Remedy = link + "; it must have the data directories that it had" + orUnclean(l)
		}
	}
}

// elsewhere is the command that moves partitions, of which the first one is named.
func elsewhere(p *view.Partitions) string {
	command := "`chronikctl topic move TOPIC:PARTITIONS BROKER`"
	if len(p.Names) > 0 {
		if i := strings.LastIndexByte(p.Names[0], '-'); i > 0 {
			command = fmt.Sprintf("`chronikctl topic move %s:%s BROKER`", p.Names[0][:i], p.Names[0][i+1:])
		}
	}
	return command
}
