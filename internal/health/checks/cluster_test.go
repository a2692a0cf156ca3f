package checks

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// member returns the facts of a member of a healthy cluster of three brokers, with changes.
func member(change ...func(*view.Cluster)) Facts {
	c := &view.Cluster{Seeds: 3, Quorum: view.Quorum{Leader: 2, Voters: 3}, State: "active", Version: "1.0", Own: "1.0",
		Brokers: []view.Broker{{ID: 1, State: "active"}, {ID: 2, State: "active"}, {ID: 3, State: "active"}}}
	for _, f := range change {
		f(c)
	}
	return Facts{Serving: true, Cluster: c}
}

func some(count int, names ...string) view.Partitions {
	return view.Partitions{Count: count, Names: names}
}

func TestMembership(t *testing.T) {
	examine(t, health.CheckMembership, []patient{
		{"no cluster", Facts{Serving: true}, nil},
		{"healthy", member(), nil},
		{"a connection ended just now", member(func(c *view.Cluster) { c.NoLease = 300 * time.Millisecond }), nil},
		{"another metadata leader is elected", member(func(c *view.Cluster) { c.NoLease = 2 * time.Second }), nil},
		{"no answers", member(func(c *view.Cluster) { c.NoLease = noLeaseAfter }),
			[]string{"bad this broker: the controller does not confirm its heartbeats, so other brokers take over"}},
		{"no leader for a moment", member(func(c *view.Cluster) { c.NoLease, c.Quorum.Leader = noLeaseAfter, -1 }),
			[]string{"heartbeats: it knows no metadata leader at present"}},
		{"no leader", member(func(c *view.Cluster) { c.NoLease, c.Quorum.NoLeader = time.Minute, time.Minute }),
			[]string{"because the cluster has no metadata leader"}},
		{"its metadata cannot be written", member(func(c *view.Cluster) {
			c.NoLease, c.Quorum.NoLeader, c.Quorum.Failed = time.Minute, time.Minute, "no space left"
		}), []string{"heartbeats, because its metadata cannot be written, and other brokers take over"}},
		{"fenced", member(func(c *view.Cluster) { c.State = "fenced" }), []string{"bad this broker: the controller has fenced it"}},
		{"behind, with a lease", member(func(c *view.Cluster) { c.Stale = 2 * time.Second }), nil},
		{"metadata stand still", member(func(c *view.Cluster) { c.State, c.Stale = "fenced", 10*time.Minute }),
			[]string{"bad this broker: its metadata stand still: it has not applied changes that the controller made 10m0s ago"}},
		{"metadata stand still for a moment", member(func(c *view.Cluster) { c.Stale = 4 * time.Second }), nil},
		{"metadata stand still, and the lease lasts", member(func(c *view.Cluster) { c.Stale = 5 * time.Second }),
			[]string{"warn this broker: its metadata stand still: it has not applied changes that the controller made 5s ago, and shows"}},
		{"metadata stand still, not fenced yet", member(func(c *view.Cluster) { c.NoLease, c.Stale = noLeaseAfter, 4*time.Second }),
			[]string{"bad this broker: its metadata stand still"}},
	})
}

// A load balancer sends no client to a broker whose leaderships may have moved, but to one with
// replicas that are not in sync. While the broker starts, its phase is the finding.
func TestABrokerWithoutALeaseIsNotReady(t *testing.T) {
	ready := func(f Facts) (ok bool) {
		findings, _ := examined(t, Checks(), &f)
		ok = true
		for i := range findings {
			ok = ok && !findings[i].NotReady
		}
		return ok
	}
	for _, x := range []struct {
		name string
		f    Facts
		want bool
	}{
		{"healthy", member(), true},
		{"no lease", member(func(c *view.Cluster) { c.NoLease = noLeaseAfter }), false},
		{"fenced", member(func(c *view.Cluster) { c.State = "fenced" }), false},
		{"no metadata leader, lease not over", member(func(c *view.Cluster) { c.Quorum.NoLeader = time.Minute }), true},
		{"another broker fenced", member(func(c *view.Cluster) {
			c.Brokers[2] = view.Broker{ID: 3, State: "fenced", OutOfSync: some(4, "a-0"), BelowMin: some(1, "a-0")}
		}), true},
		{"leaderless", member(func(c *view.Cluster) {
			c.Leaderless = []view.Leaderless{{Partitions: some(1, "a-0"), Why: view.ForBrokers, Brokers: []int32{3}}}
		}), true},
	} {
		if ready(x.f) != x.want {
			t.Errorf("%s: ready %v", x.name, !x.want)
		}
	}
	starting := member(func(c *view.Cluster) { c.NoLease = noLeaseAfter })
	starting.Serving = false
	if found, _ := findingsOf(t, health.CheckMembership, starting); len(found) > 0 {
		t.Errorf("a broker that starts has %q", found)
	}
}

// The finding that the metadata have no leader is about the voters that cannot be reached, so that
// nothing else is said of them.
func TestTheQuorumIsAboutItsVoters(t *testing.T) {
	f := member(func(c *view.Cluster) {
		c.Quorum.NoLeader, c.Quorum.Unreachable, c.Quorum.Away = time.Minute, []string{"one", "two", "no broker"}, []int32{2, 3}
	})
	found, _ := examined(t, Checks(), &f)
	i := slices.IndexFunc(found, func(x health.Finding) bool { return x.Check == health.CheckQuorum })
	if i < 0 || !found[i].IsAbout(2) || !found[i].IsAbout(3) || found[i].IsAbout(1) {
		t.Errorf("%+v", found)
	}
}

// Without a metadata leader the finding counts what can be written, and any stop comes after the
// majority.
func TestWhatCanBeWrittenWithoutAMetadataLeader(t *testing.T) {
	for apart, want := range map[int]string{
		0: "3 of 3 partitions can be written with acks=all, and read: ",
		2: "1 of 3 partitions can be written with acks=all, and read: ",
		3: "no partition can be written now: ",
	} {
		f := member(func(c *view.Cluster) { c.Quorum.NoLeader, c.Partitions, c.Apart = time.Minute, 3, apart })
		var n notes
		checkQuorum(&f, &n)
		if len(n.findings) != 1 || !strings.HasPrefix(n.findings[0].Works, want) ||
			n.findings[0].Holds != "bring back brokers until 2 of 3 voters reach each other" {
			t.Errorf("%d wait: %+v", apart, n.findings)
		}
	}
}

// A vote that has not moved is a finding at all brokers, as soon as they see the registration.
func TestALostVoteIsAFindingOfAllBrokers(t *testing.T) {
	f := member(func(c *view.Cluster) { c.Quorum.Unmoved = []int32{3} })
	var n notes
	checkBrokers(&f, &n)
	if len(n.findings) != 1 || n.findings[0].Severity != health.Warn || n.findings[0].Holds != unmovedVote {
		t.Errorf("%+v", n.findings)
	}
}

// A broker that others cannot connect to has the remedy of that error. It is to be replaced only if
// nothing was heard of it for minutes.
func TestTheRemedyOfABrokerIsThatOfItsConnection(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	named := &view.Unreached{Address: "c:1", Err: `cluster.name is "a" here and "b" at the peer; set the same cluster.name at all nodes`,
		Remedy: "set the same cluster.name at all nodes"}
	dial := &view.Unreached{Address: "c:1", Err: "dial tcp c:1: i/o timeout"}
	const wait, start, advertise, replace = "wait until", "start", "check `advertise` of broker 3", "`chronikctl broker unregister 3`"
	for name, c := range map[string]struct {
		state        string
		link         *view.Unreached
		since, heard time.Duration // ago; 0: never
		says, not    []string
	}{
		"another name, just heard":  {"fenced", named, time.Second, time.Second, []string{named.Remedy + " ("}, []string{start, replace}},
		"another name for an hour":  {"fenced", named, time.Hour, time.Hour, []string{named.Remedy + " ("}, []string{start, replace}},
		"another name, starting":    {"starting", named, time.Second, 0, []string{named.Remedy + " ("}, []string{wait}},
		"starting":                  {"starting", nil, 0, time.Second, []string{wait}, []string{advertise}},
		"starting, at no address":   {"starting", dial, time.Second, time.Second, []string{wait, advertise}, []string{replace}},
		"fenced, at no address":     {"fenced", dial, time.Second, time.Second, []string{"own report", advertise}, []string{replace}},
		"away":                      {"fenced", dial, goneAfter - 1, 0, []string{start, advertise}, []string{replace}},
		"gone":                      {"fenced", dial, goneAfter, goneAfter, []string{start, advertise, replace}, nil},
		"no connection, and heard":  {"fenced", dial, time.Hour, goneAfter - 1, []string{start, advertise}, []string{replace}},
		"a connection, and no word": {"fenced", nil, 0, time.Hour, []string{start}, []string{advertise, replace}},
		"without replicas":          {"fenced", dial, time.Second, 0, []string{start, replace}, []string{"drain"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := member()
			f.Now, f.Cluster.Brokers[2].State = now, c.state
			if name != "without replicas" {
				f.Cluster.Brokers[2].Replicas = 1
			}
			if c.link != nil {
				x := *c.link
				x.Broker, x.Since = 3, now.Add(-c.since)
				f.Cluster.Unreached = []view.Unreached{x}
			}
			if c.heard > 0 {
				f.Others = []Other{{Heard: health.Heard{Broker: 3, At: now.Add(-c.heard), Report: &health.Report{}}}}
			}
			var n notes
			checkBrokers(&f, &n)
			if len(n.findings) != 1 {
				t.Fatalf("%+v", n.findings)
			}
			x := n.findings[0]
			for _, text := range c.says {
				if !strings.Contains(x.Remedy, text) {
					t.Errorf("%q is not in %q", text, x.Remedy)
				}
			}
			for _, text := range c.not {
				if strings.Contains(x.Remedy, text) {
					t.Errorf("%q is in %q", text, x.Remedy)
				}
			}
			if c.link != nil && !strings.Contains(x.Problem, c.link.Reason()) || strings.Contains(x.Problem, named.Remedy) {
				t.Errorf("the problem is %q", x.Problem)
			}
		})
	}
}

func TestMetadataQuorum(t *testing.T) {
	quorum := func(change func(*view.Quorum)) Facts { return member(func(c *view.Cluster) { change(&c.Quorum) }) }
	examine(t, "quorum", []patient{
		{"healthy", member(), nil},
		{"an election", quorum(func(q *view.Quorum) { q.NoLeader = time.Second }), nil},
		{"a smaller list, and the votes have not moved", quorum(func(q *view.Quorum) { q.Voters = 5 }),
			[]string{"warn metadata quorum: 5 brokers vote, and cluster.seeds has 3: the votes have not moved"}},
		{"voters not known yet", quorum(func(q *view.Quorum) { q.Voters, q.NoLeader = 0, time.Minute }), nil},
		{"no leader", quorum(func(q *view.Quorum) {
			q.NoLeader, q.Unreachable = time.Minute, []string{"broker 2 (b:9092)", "broker 3 (c:9092)"}
		}), []string{"bad metadata quorum: the cluster has no metadata leader: no election, topic or config can change; of 3 voters, these " +
			"cannot be reached from this broker: broker 2 (b:9092), broker 3 (c:9092)"}},
		{"no leader, one voter is another member", quorum(func(q *view.Quorum) {
			q.NoLeader, q.Unreachable, q.Lost = time.Minute, []string{"broker 2 (b:9092)"}, []string{"broker 3 (c:9092)"}
		}), []string{"cannot be reached from this broker: broker 2 (b:9092); of 3 voters, these run with other metadata directories than those that have " +
			"the votes: broker 3 (c:9092)"}},
		{"no leader, most voters are other members", quorum(func(q *view.Quorum) {
			q.NoLeader, q.Lost, q.Recover = time.Minute, []string{"broker 2 (b:9092)", "broker 3 (c:9092)"}, "`x`"
		}), []string{"of 3 voters, these run with other metadata directories than those that have the votes: broker 2 (b:9092), broker 3 " +
			"(c:9092), so a majority of the voters is gone, and waiting does not help"}},
		{"no leader, the disk of the only voter is full", quorum(func(q *view.Quorum) {
			q.NoLeader, q.Voters, q.Failed = time.Minute, 1, "write log: no space left on device"
		}), []string{"the cluster has no metadata leader: no election, topic or config can change; this broker has no vote, because its " +
			"metadata cannot be written: write log: no space left on device"}},
		{"the disk of one of three voters is full", quorum(func(q *view.Quorum) {
			q.NoLeader, q.Failed = time.Minute, "write log: no space left on device"
		}), []string{"bad metadata quorum: this broker follows no metadata leader and has no vote, " +
			"because its metadata cannot be written: write"}},
		{"disk", quorum(func(q *view.Quorum) { q.Hanging = time.Minute }),
			[]string{"bad metadata of this broker: its metadata store does not respond"}},
		{"a vote moves", quorum(func(q *view.Quorum) { q.Orphans, q.Orphaned = 1, time.Second }), nil},
		{"lost vote", quorum(func(q *view.Quorum) { q.Orphans, q.Orphaned = 1, time.Minute }),
			[]string{"warn metadata quorum: 1 voter of 3 has a member id that no broker has"}},
		{"the vote of an unregistered broker", quorum(func(q *view.Quorum) { q.Unregistered = []int32{3} }),
			[]string{"warn metadata quorum: 1 vote of 3 belongs to broker 3, unregistered before"}},
		{"growing", quorum(func(q *view.Quorum) { q.Voters = 1 }),
			[]string{"warn metadata quorum: only 1 of 3 seeds vote, so the metadata survive the failure of none"}},
		{"other seeds", quorum(func(q *view.Quorum) {
			q.Waits, q.Waiting, q.Differ = "brokers have different cluster.seeds", time.Minute, []int32{3, 2}
		}), []string{"warn metadata quorum: cluster.seeds of brokers 2,3 differ from those of broker 0, which leads the metadata"}},
		{"other seeds for a moment", quorum(func(q *view.Quorum) { q.Waits, q.Waiting, q.Differ = "x", 59*time.Second, []int32{2} }), nil},
		{"seeds that do not answer",
			quorum(func(q *view.Quorum) { q.Waits, q.Waiting = "not all brokers of cluster.seeds answer", time.Hour }),
			[]string{"warn metadata quorum: its members do not change as cluster.seeds and the registered brokers require: " +
				"not all brokers of cluster.seeds answer"}},
		{"a change that fails",
			quorum(func(q *view.Quorum) { q.Waits, q.Fails, q.Waiting = "member 7 has not caught up", true, time.Hour }),
			[]string{"warn metadata quorum: a change of its members fails: member 7 has not caught up"}},
		{"even", member(func(c *view.Cluster) { c.Seeds, c.Quorum.Voters = 4, 4 }),
			[]string{"warn metadata quorum: the number of voters is even: 4 survive the failure of 1, not more than 3 do"}},
		{"one", member(func(c *view.Cluster) { c.Seeds, c.Quorum.Voters = 1, 1 }),
			[]string{"note metadata quorum: this cluster has one voter"}},
	})
}

// The remedy of lost votes is complete at each broker that knows of them.
func TestTheRemedyOfLostVotesNamesTheCommand(t *testing.T) {
	q := view.Quorum{Votes: true, Lost: []string{"broker 2", "broker 3"}, Recover: "`chronikd recover --config FILE --lost 2,3`"}
	if got := recovery(&q); !strings.Contains(got, "shut down this broker, run "+q.Recover+" with its configuration, start it") {
		t.Error(got)
	}
	q.Votes, q.Whole = false, []string{"broker 1"}
	if got := recovery(&q); !strings.Contains(got, "shut down broker 1, run `") {
		t.Error(got)
	}
	q.Votes = true
	if got := recovery(&q); !strings.Contains(got, "shut down the one of this broker, broker 1 with the largest term and entry, which ") {
		t.Error(got)
	}
}

// While seeds do not vote, a stop waits for them, unless an entry of the list is wrong: its remedy
// is a restart, and it may be why they do not vote.
func TestNothingWaitsForSeedsWhileAnEntryIsWrong(t *testing.T) {
	for wrong, want := range []string{"start the other brokers of cluster.seeds",
		"start the other brokers of cluster.seeds, unless the check seeds names their entries"} {
		f := member(func(c *view.Cluster) {
			c.Quorum.Voters, c.WrongSeeds = 2, make([]view.WrongSeed, wrong)
		})
		var n notes
		checkQuorum(&f, &n)
		if len(n.findings) != 1 || n.findings[0].Holds != want {
			t.Errorf("%d wrong: %+v", wrong, n.findings)
		}
	}
}

// An entry of cluster.seeds that is wrong for long is a finding; one whose broker may be down is
// none.
func TestWrongSeeds(t *testing.T) {
	seed := func(s view.WrongSeed, change ...func(*view.Cluster)) Facts {
		s.Address = "d:1"
		f := member(append(change, func(c *view.Cluster) { c.WrongSeeds = []view.WrongSeed{s} })...)
		f.Now = s.Since.Add(wrongSeedAfter)
		return f
	}
	silent := func(change ...func(*view.Cluster)) Facts {
		return seed(view.WrongSeed{Silent: true, Err: "connection refused"}, change...)
	}
	moment := func(f Facts) Facts { f.Now = f.Now.Add(-1); return f }
	other := view.WrongSeed{Err: "cluster.name is \"x\" here"}
	away := func(c *view.Cluster) { c.Brokers[2].State = "fenced" }
	wrong := []string{"warn cluster.seeds entry d:1: its cluster.seeds has an address that no broker of this cluster has"}
	examine(t, "seeds", []patient{
		{"healthy", member(), nil},
		{"another cluster, for a moment", moment(seed(other)), nil},
		{"another cluster", seed(other, away), []string{"warn cluster.seeds entry d:1: its cluster.seeds has an address at which no broker of this cluster is: cluster.name is"}},
		{"silent", silent(), wrong},
		{"silent for a moment", moment(silent()), nil},
		{"silent, and a broker is down", silent(away), nil},
		{"silent, and a broker is not reached", silent(func(c *view.Cluster) { c.Unreached = []view.Unreached{{Broker: 3}} }), nil},
		{"silent, and no metadata leader", silent(func(c *view.Cluster) { c.Quorum.NoLeader = time.Second }), nil},
	})
}

// A broker refuses to start with a list of an even number of addresses.
func TestTheRemedyOfAVoteKeepsAnOddList(t *testing.T) {
	for _, c := range []struct {
		voters int
		gone   []int32
		want   string
	}{
		{5, []int32{5}, "to 3 addresses without that of broker 5, on all brokers, one at a time: "},
		{5, []int32{4, 5}, "to 3 addresses without that of brokers 4,5, "},
		{4, []int32{4}, "to 3 addresses without that of broker 4, "},
		{3, []int32{3}, "the address of a broker without a vote in the place of that of broker 3 "},
	} {
		got := voteRemedy(&view.Quorum{Voters: c.voters, Unregistered: c.gone})
		if !strings.Contains(got, c.want) || !strings.Contains(got, "chronikd config check") {
			t.Errorf("%d voters, %v unregistered: %s", c.voters, c.gone, got)
		}
	}
}

func TestPartitionsWithoutALeader(t *testing.T) {
	group := func(why view.Waiting, brokers ...int32) Facts {
		return member(func(c *view.Cluster) {
			c.Leaderless = []view.Leaderless{{Partitions: some(12, "a-0", "a-1", "a-2", "a-3", "a-4"), Why: why, Brokers: brokers,
				For: noLeaderAfter}}
		})
	}
	recovered := func(lossless bool) Facts {
		f := group(view.Recovered)
		f.Cluster.Leaderless[0].Lossless = lossless
		return f
	}
	soon := group(view.Elected, 3)
	soon.Cluster.Leaderless[0].For--
	const them = "12 partitions (a-0, a-1, a-2, a-3, a-4 and 7 more) cannot be written or read: "
	examine(t, "leaderless", []patient{
		{"healthy", member(), nil},
		{"a broker is away", group(view.ForBrokers, 3), []string{"bad partitions without a leader, on broker 3: " + them +
			"only broker 3 may have all acknowledged records, and it is not active"}},
		{"its finding has them", func() Facts {
			f := group(view.ForBrokers, 3)
			f.Cluster.Brokers[2].State = "fenced"
			return f
		}(), nil},
		{"two are", group(view.ForBrokers, 3, 2), []string{"on brokers 2,3: " + them}},
		{"a disk is", group(view.ForDirectory, 3),
			[]string{them + "their acknowledged records are in log directories or logs of broker 3"}},
		{"recovered, and all are there", recovered(true), []string{them + "the metadata were recovered and do not have " +
			"the replicas in sync, so an operator elects their leaders; all of their replicas are there, and no broker reports a damaged log of them"}},
		{"recovered, below level 4", recovered(false), []string{"but below feature level 4"}},
		{"recovered, and one is away", group(view.Recovered, 3), []string{"their replicas on broker 3 cannot take part"}},
		{"lossy", group(view.Lossy, 3), []string{them + "their last replica in sync lost records in a power failure"}},
		{"an election of a few seconds", soon, nil},
		{"comparison", group(view.Comparison, 3), []string{them + "the replica that is there came back after an unclean stop, and " +
			"the controller waits up to 10 s for broker 3"}},
		{"election", group(view.Elected, 3), []string{them + "the controller is electing leaders"}},
	})
}

// A metadata leader that stood still does not advise to check the network to itself.
func TestARemedyNamesNoWayToItself(t *testing.T) {
	f := member(func(c *view.Cluster) { c.NoLease, c.Quorum.Leader = noLeaseAfter, c.Self })
	findings, _ := examined(t, Checks(), &f)
	if !slices.ContainsFunc(findings, func(x health.Finding) bool {
		return strings.Contains(x.Remedy, "check the network between it and the other brokers, in both directions")
	}) {
		t.Errorf("%+v", findings)
	}
}

// Partitions whose records are lost begin again without a deletion of their topics, which would
// delete whole partitions, too.
func TestTheRemedyOfLostPartitionsOfAWholeTopic(t *testing.T) {
	for _, why := range []view.Waiting{view.ForDirectory, view.Recovered} {
		f := member(func(c *view.Cluster) {
			c.Leaderless = []view.Leaderless{{Partitions: some(1, "a-0"), Why: why, Brokers: []int32{2, 3}}}
		})
		findings, _ := examined(t, Checks(), &f)
		if !slices.ContainsFunc(findings, func(x health.Finding) bool {
			begin := strings.Index(x.Remedy, "let them begin without their records: run `chronikctl topic move a:0 BROKER`")
			return begin >= 0 && begin < strings.Index(x.Remedy, "`chronikctl topic delete TOPIC`")
		}) {
			t.Errorf("%v: %+v", why, findings)
		}
	}
}

// Without another replica there is none to elect.
func TestTheRemedyOfALostOnlyReplica(t *testing.T) {
	f := member(func(c *view.Cluster) {
		c.Leaderless = []view.Leaderless{{Partitions: some(1, "a-0"), Why: view.ForBrokers, Brokers: []int32{3}, Sole: true}}
	})
	findings, _ := examined(t, Checks(), &f)
	if !slices.ContainsFunc(findings, func(x health.Finding) bool {
		return strings.Contains(x.Remedy, "delete the topics with `chronikctl topic delete TOPIC`, or let the partitions begin without "+
			"their records: run `chronikctl topic move ")
	}) {
		t.Errorf("%+v", findings)
	}
}

// The remedy of a broker whose certificate has expired is another certificate, whatever it last
// reported.
func TestTheRemedyOfAnExpiredCertificate(t *testing.T) {
	f := member(func(c *view.Cluster) {
		c.Brokers[2].State = "fenced"
		c.Unreached = []view.Unreached{{Broker: 3, Address: "c:1", Err: "expired", Theirs: true}}
	})
	f.Now = time.Now()
	f.Others = []Other{{Heard: health.Heard{Broker: 3, At: f.Now.Add(-time.Hour), Report: &health.Report{}}}}
	findings, _ := examined(t, Checks(), &f)
	i := slices.IndexFunc(findings, func(x health.Finding) bool { return x.Check == health.CheckBrokers })
	if i < 0 || !strings.Contains(findings[i].Remedy, "--renew`") || strings.Contains(findings[i].Problem, "report") {
		t.Errorf("%+v", findings)
	}
}

// A log directory in which nothing can be made is one finding, that of its broker.
func TestADirectoryThatHangsIsTheFindingOfItsBroker(t *testing.T) {
	f := member(func(c *view.Cluster) { c.Self, c.Brokers[2].HungDirs = 1, 1 })
	f.Now = time.Now()
	own := health.Finding{Check: "partition", Severity: health.Warn, Broker: 3, Subject: "partitions in /d", Problem: "p"}
	heard := health.Heard{Broker: 3, At: f.Now, Report: &health.Report{Findings: []health.Finding{own}}}
	f.Others = []Other{{Heard: heard, Active: f.Now}}
	findings, _ := examined(t, clusterChecks(), &f)
	r := health.Report{Broker: 1, Findings: findings}
	if r.Add([]health.Heard{heard}, f.Now); len(r.Findings) != 1 || r.Findings[0].Subject != own.Subject {
		t.Errorf("%+v", r.Findings)
	}
	heard.At = f.Now.Add(-time.Minute)
	f.Others[0].Heard = heard
	findings, _ = examined(t, clusterChecks(), &f)
	r.Findings = findings
	shared := func(x health.Finding) bool { return x.Check == health.CheckBrokers }
	if r.Add([]health.Heard{heard}, f.Now); !slices.ContainsFunc(r.Findings, shared) {
		t.Errorf("without a present report: %+v", r.Findings)
	}
}

// A broker that is away is one finding, however many partitions it concerns.
func TestOneFindingForEachBroker(t *testing.T) {
	third := func(b view.Broker) Facts { b.ID = 3; return member(func(c *view.Cluster) { c.Brokers[2] = b }) }
	behind := some(30, "a-0", "a-1")
	examine(t, "brokers", []patient{
		{"healthy", member(), nil},
		{"fenced", third(view.Broker{State: "fenced"}),
			[]string{"warn broker 3: it is fenced: it sends no heartbeats, or its metadata stand still"}},
		{"fenced, and not reached", func() Facts {
			f := third(view.Broker{State: "fenced"})
			f.Cluster.Unreached = []view.Unreached{{Broker: 3, Address: "c:1", Err: "certificate has expired"}}
			return f
		}(), []string{"or its metadata stand still; a connection to c:1 fails: certificate has expired"}},
		{"the only one that may have all records", func() Facts {
			f := third(view.Broker{State: "fenced"})
			f.Cluster.Leaderless = []view.Leaderless{{Partitions: some(2, "b-0", "b-1"), Why: view.ForBrokers, Brokers: []int32{3},
				Sole: true}}
			return f
		}(), []string{"bad broker 3: it is fenced: it sends no heartbeats, or its metadata stand still; 2 partitions (b-0, b-1) cannot be " +
			"written or read, because only it may have all acknowledged records"}},
		{"with replicas", third(view.Broker{State: "fenced", OutOfSync: behind}),
			[]string{"warn broker 3: it is fenced: it sends no heartbeats, or its metadata stand still; it is not in sync in 30 partitions (a-0, a-1 and 28 more)"}},
		{"under min.insync.replicas", third(view.Broker{State: "fenced", OutOfSync: behind, BelowMin: some(1, "a-1")}),
			[]string{"bad broker 3: it is fenced: it sends no heartbeats, or its metadata stand still; it is not in sync in 30 partitions (a-0, a-1 and 28 more); " +
				"acks=all is refused in 1 partition (a-1)"}},
		{"catching up", third(view.Broker{State: "active", OutOfSync: behind}),
			[]string{"warn broker 3: it is active, and not all of its replicas are in sync"}},
		{"low on space", third(view.Broker{State: "active", LowDirs: 1}),
			[]string{"warn broker 3: it cannot write everywhere: 1 log directory is low on space"}},
		{"failed, and behind", third(view.Broker{State: "active", FailedDirs: 2, HungDirs: 1, OutOfSync: behind}),
			[]string{"warn broker 3: it cannot write everywhere: 2 log directories return errors, 1 log directory hangs or makes no new logs; it is not in sync in 30 partitions"}},
		{"all replicas are low", third(view.Broker{State: "active", LowDirs: 1, Full: some(1, "a-0")}),
			[]string{"bad broker 3: it cannot write everywhere: 1 log directory is low on space; records of clients are refused in 1 partition (a-0)"}},
		{"damaged", third(view.Broker{State: "active", Damaged: some(1, "a-0")}),
			[]string{"warn broker 3: it cannot write everywhere: its logs of 1 partition (a-0) are damaged"}},
		{"damaged, and no other one is whole", third(view.Broker{State: "active", Damaged: some(2, "a-0"), LastDamaged: some(1, "a-0")}),
			[]string{"bad broker 3: it cannot write everywhere: its logs of 2 partitions (a-0 and 1 more) are damaged; " +
				"it leads 1 partition (a-0) nevertheless, because no other replica is whole and can lead"}},
		{"damaged, without another replica", third(view.Broker{State: "active", Damaged: some(1, "a-0"), SoleDamaged: some(1, "a-0")}),
			[]string{"bad broker 3: it cannot write everywhere: its logs of 1 partition (a-0) are damaged; " +
				"no other broker has a replica of 1 partition (a-0)"}},
		{"starting", third(view.Broker{State: "starting"}), []string{"warn broker 3: it is starting"}},
		{"stopping", third(view.Broker{State: "draining"}), []string{"warn broker 3: it is stopping"}},
	})
}

func TestStoppedReplicasAndUncleanElections(t *testing.T) {
	examine(t, "stopped_replica", []patient{
		{"none", member(), nil},
		{"ahead", member(func(c *view.Cluster) {
			c.Stopped = []view.Stopped{{Partitions: some(1, "a-0"), Leader: 2, Ahead: true}}
		}),
			[]string{"warn replicas of this broker that broker 2 leads: 1 partition (a-0): not copied, because they have records of a later"}},
		{"below", member(func(c *view.Cluster) { c.Stopped = []view.Stopped{{Partitions: some(2, "a-0"), Leader: 2}} }),
			[]string{"2 partitions (a-0 and 1 more): not copied, because following the leader would discard committed records"}},
	})
	unreached := func(broker int32, since time.Duration) func(*view.Cluster) {
		return func(c *view.Cluster) {
			c.Unreached = []view.Unreached{{Broker: broker, Follows: true, Address: "b:1", Since: time.Time{}.Add(-since),
				Err: "connection refused"}}
		}
	}
	examine(t, "stopped_replica", []patient{
		{"cannot connect", member(unreached(2, time.Minute)), []string{
			"bad connection to broker 2: it cannot be made at b:1, the address that broker 2 advertises to other brokers, so replicas of"}},
		{"cannot connect to a broker that leads nothing here", member(unreached(2, time.Minute), func(c *view.Cluster) {
			c.Unreached[0].Follows = false
		}), []string{"warn connection to broker 2: it cannot be made at b:1, the address that broker 2 advertises to other brokers: connection"}},
		{"cannot connect for a moment", member(unreached(2, time.Second)), nil},
		{"cannot connect, and may have ended", member(unreached(2, time.Minute), func(c *view.Cluster) { c.Session = time.Minute }), nil},
		{"the other one is fenced", member(unreached(2, time.Minute), func(c *view.Cluster) { c.Brokers[1].State = "fenced" }), nil},
	})
	examine(t, "unclean", []patient{
		{"none", member(), nil},
		{"one", member(func(c *view.Cluster) { c.Unclean = some(1, "a-0") }),
			[]string{"warn unclean elections: 1 partition (a-0): a leader was elected that may lack acknowledged records"}},
	})
}

// After a recovery, the finding of partitions that wait for an election and the one that the
// election leaves promise the same, and name what ends the latter.
func TestTheElectionAfterARecoveryIsJudgedAlikeBeforeAndAfter(t *testing.T) {
	before := member(func(c *view.Cluster) {
		c.Leaderless = []view.Leaderless{{Partitions: some(1, "a-0"), Why: view.Recovered, Lossless: true, For: noLeaderAfter}}
	})
	after := member(func(c *view.Cluster) {
		c.Unclean, c.Recovered = some(1, "a-0"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	})
	for check, x := range map[string]struct {
		f    Facts
		want []string
	}{
		"leaderless": {before, []string{"that a replica still has", "--confirm-loss"}},
		"unclean":    {after, []string{"2026-01-02T03:04:05Z", "that a replica still had", "not_compared", "--confirm-loss"}},
	} {
		findings, _ := examined(t, Checks(), &x.f)
		i := slices.IndexFunc(findings, func(f health.Finding) bool { return f.Check == check })
		if i < 0 {
			t.Errorf("%s: %+v", check, findings)
			continue
		}
		for _, want := range x.want {
			if !strings.Contains(findings[i].Remedy, want) {
				t.Errorf("%s: no %q in %s", check, want, findings[i].Remedy)
			}
		}
	}
}

// The finding says what the controller does for a broker to which others cannot connect.
func TestWhatTheControllerDoesForABrokerThatIsNotReached(t *testing.T) {
	x := &view.Unreached{Broker: 2, Follows: true, Address: "b:1", Err: "connection refused"}
	shunned := &view.Cluster{Shunned: []int32{2}}
	if f := notReached(shunned, x); f.Severity != health.Warn || strings.Contains(f.Problem, "do not follow") {
		t.Errorf("the controller has moved its leaderships: %s %s", f.Severity, f.Problem)
	}
	for c, want := range map[*view.Cluster][2]string{
		{}:      {"broker 2 itself is active, and keeps its leaderships", "the replicas then follow within seconds ("},
		shunned: {"so the controller has moved its leaderships to other replicas in sync", "broker 2 leads again within 5 minutes"},
		{Quorum: view.Quorum{NoLeader: time.Minute}}: {"it is not known whether broker 2 runs", "start broker 2 if it does not run"},
	} {
		if f := notReached(c, x); !strings.Contains(f.Works, want[0]) || !strings.Contains(f.Remedy, want[1]) {
			t.Errorf("%+v: %s; %s", c, f.Works, f.Remedy)
		}
	}
}

// Without a metadata leader, brokers that have ended stay active in the metadata. All that is found
// of them follows from the lost majority.
func TestALostMajorityIsOneFinding(t *testing.T) {
	lost := func(noLeader time.Duration) Facts {
		f := hearing(member(func(c *view.Cluster) {
			c.Self, c.NoLease, c.Quorum.NoLeader = 1, noLeaseAfter, noLeader
			c.Quorum.Unreachable = []string{"broker 2 (b:9092)", "broker 3 (c:9092)"}
		}), time.Minute, time.Hour, &health.Report{})
		for id := int32(2); id <= 3; id++ {
			f.Cluster.Unreached = append(f.Cluster.Unreached, view.Unreached{Broker: id, Follows: id == 2, Address: "b:1",
				Since: f.Now.Add(-time.Minute), Err: "connection refused"})
		}
		f.Settings = Settings{}
		return f
	}
	f := lost(time.Minute)
	found, _ := examined(t, clusterChecks(), &f)
	for i := range found {
		found[i].Broker = 1
		if text := found[i].String(); strings.Contains(text, "is active") {
			t.Error(text)
		}
	}
	r := &health.Report{Broker: 1, Findings: found}
	r.Add(nil, f.Now)
	if len(r.Findings) != 1 || r.Findings[0].Check != health.CheckQuorum ||
		!strings.HasPrefix(r.Findings[0].Remedy, "start broker 2 (b:9092), broker 3 (c:9092), or repair the network to them") {
		t.Errorf("%+v", r.Findings)
	}
	f = lost(time.Second)
	for _, check := range []string{"stopped_replica", health.CheckReports} {
		if found, _ := findingsOf(t, check, f); len(found) > 0 {
			t.Errorf("during an election: %q", found)
		}
	}
}

// A full log directory is one finding, whose remedy is space.
func TestAFullDirectoryIsOneFinding(t *testing.T) {
	f := member(func(c *view.Cluster) {
		c.Self = 2
		c.Brokers[1].FailedDirs = 1
		c.Leaderless = []view.Leaderless{{Partitions: some(1, "one-0"), Why: view.ForDirectory, Brokers: []int32{2}, Sole: true}}
	})
	const enospc = "write segment: no space left on device"
	f.Dirs = []view.Dir{{Path: "/d", SpaceMessage: "it is full", Error: enospc, Full: true}, {Path: "/e"}}
	f.Partitions = []view.Log{{Topic: "one", Dir: "/d", Offline: true, Reopens: true, Error: enospc, Full: true}}
	remain := func() []health.Finding {
		found, _ := examined(t, Checks(), &f)
		for i := range found {
			if x := &found[i]; x.Check != "leaderless" && x.Check != health.CheckBrokers {
				x.Broker = 2
			}
		}
		r := &health.Report{Broker: 2, Findings: found}
		r.Add(nil, f.Now)
		return slices.DeleteFunc(r.Findings, func(x health.Finding) bool { return x.Severity == health.Note })
	}
	if found := remain(); len(found) != 1 || found[0].Check != checkOfSpace {
		t.Errorf("%+v", found)
	}
	f.Dirs[0].Error, f.Dirs[0].Full = "write segment: input/output error", false
	if found := remain(); len(found) < 3 {
		t.Errorf("a broken disk that is full, too: %+v", found)
	}
}

// docs/cluster.md has a row for each check of a cluster.
func TestThePageHasTheChecksOfACluster(t *testing.T) {
	page, err := os.ReadFile("../../../docs/cluster.md")
	must.OK(t, err)
	for _, c := range clusterChecks() {
		if !strings.Contains(string(page), "\n| `"+c.Name+"` | ") {
			t.Errorf("docs/cluster.md has no row for the check %s", c.Name)
		}
	}
}

func TestClocksOfBrokers(t *testing.T) {
	examine(t, "skew", []patient{
		{"none", member(func(c *view.Cluster) { c.Skew = time.Second }), nil},
		{"behind", member(func(c *view.Cluster) { c.Skew = time.Hour }),
			[]string{"warn clock: it is 1h0m0s behind that of the metadata leader, broker 2"}},
		{"ahead", member(func(c *view.Cluster) { c.Skew = -time.Hour }),
			[]string{"warn clock: it is 1h0m0s ahead of that of the metadata leader"}},
	})
}

func TestVersionsOfBrokers(t *testing.T) {
	examine(t, "version", []patient{
		{"the same", member(func(c *view.Cluster) { c.Version = c.Own }), nil},
		{"another", member(func(c *view.Cluster) { c.Version = "1.1" }),
			[]string{"note version: this broker runs 1.0, and the metadata leader, broker 2, runs 1.1"}},
	})
}

// A cluster whose brokers call a listener differently is a finding at every broker.
func TestListenersThatSomeBrokersLack(t *testing.T) {
	examine(t, "listeners", []patient{
		{"all have all", member(), nil},
		{"another name on one", member(func(c *view.Cluster) {
			c.Uncommon = []view.Listener{{Name: "brokers", On: []int32{1}, Lacks: []int32{2, 3}},
				{Name: "default", On: []int32{2, 3}, Lacks: []int32{1}}}
		}), []string{"bad names of listeners: brokers 2,3 have no listener brokers, which broker 1 has; broker 1 has no listener default, " +
			"which brokers 2,3 have: clients that dial such a listener do not learn the brokers that lack it, and cannot use what these lead"}},
	})
}

// Every finding about the cluster names its runbook, and every listener that brokers use beyond
// loopback is one without encryption.
func TestListenersOfBrokers(t *testing.T) {
	l := Listener{Name: "inside", Listen: ":9092", Open: true, Brokers: true}
	for secret, want := range map[bool]string{false: "without a secret and without encryption", true: "without encryption: who can read"} {
		f := Facts{Settings: Settings{Listeners: []Listener{l}, Secret: secret}}
		found, _ := findingsOf(t, "exposed", f)
		if len(found) != 2 || !strings.HasPrefix(found[1], string(health.Note)+" connections of brokers on :9092: ") ||
			!strings.Contains(found[1], want) {
			t.Errorf("with a secret %v: %q", secret, found)
		}
	}
	l.Open = false
	if found, _ := findingsOf(t, "exposed", Facts{Settings: Settings{Listeners: []Listener{l}}}); len(found) > 0 {
		t.Errorf("on loopback: %q", found)
	}
}

// Two processes of one broker are one finding at all brokers: what follows from them is left out,
// of what this broker finds and of what either of the two reports. It tells what is known of both.
func TestTwoProcessesOfABrokerAreOneFinding(t *testing.T) {
	now := time.Now()
	twins := []view.Twins{{Broker: 3, Processes: []view.Process{
		{Address: "c:1", Host: "10.0.0.3", Registered: true, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, {Address: "d:1"},
	}, Copies: true}}
	away := func(self int32) Facts {
		f := member(func(c *view.Cluster) {
			c.Self = self
			c.Brokers[2].State = "fenced"
			c.Unreached = []view.Unreached{{Broker: 3, Address: "d:1", Since: now.Add(-time.Hour), Err: "refused"}}
		})
		f.Now = now
		f.Others = []Other{{Heard: health.Heard{Broker: 3}, Active: now.Add(-time.Hour)}}
		return f
	}
	taken := away(3)
	taken.Cluster.State, taken.Cluster.NoLease = "fenced", time.Minute
	taken.Cluster.Unreached = []view.Unreached{{Broker: 1, Follows: true, Address: "a:1", Since: now.Add(-time.Hour), Err: "refused"}}
	taken.Metadata.Dir, taken.Metadata.Lacking = "/m", []Lacking{{Part: "replicas", Replaced: true}}
	starting := Facts{Now: now}
	for name, f := range map[string]Facts{"another broker": away(1), "one of them": taken, "one that starts": starting} {
		all := append(clusterChecks(), servingChecks()...)
		f.Twins = nil
		if findings, _ := examined(t, all, &f); name != "one that starts" && len(findings) < 2 {
			t.Fatalf("%s: nothing follows from it: %+v", name, findings)
		}
		f.Twins = twins
		findings, _ := examined(t, all, &f)
		own := int32(1)
		if f.Cluster != nil {
			own = f.Cluster.Self
		}
		for i := range findings {
			if findings[i].Check == "membership" || findings[i].Check == "metadata" || findings[i].Check == "stopped_replica" {
				findings[i].Broker = own
			}
		}
		r := health.Report{Broker: own, Findings: findings}
		r.Add(nil, now)
		if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Problem, "node.id=3: one advertises c:1, connects from 10.0.0.3, "+
			"has the newest registration and was first met at 2026-01-02T03:04:05Z, and one advertises d:1; each ends") ||
			!strings.Contains(r.Findings[0].Remedy, "end the process at c:1 on 10.0.0.3 or at d:1, whichever is not meant") ||
			r.Findings[0].Broker != health.NoBroker {
			t.Errorf("%s: %+v", name, r.Findings)
		}
		// A broker that has not met both shows what the others know.
		other := health.Report{Broker: 2, Findings: []health.Finding{{Broker: 2, Check: health.CheckMembership}}}
		other.Add([]health.Heard{{Broker: own, At: now, Report: &health.Report{Broker: own, Findings: findings}}}, now)
		if n := len(other.Findings); n != 2 || !slices.ContainsFunc(other.Findings, func(x health.Finding) bool {
			return x.Check == health.CheckProcesses
		}) {
			t.Errorf("%s: another broker shows %+v", name, other.Findings)
		}
	}
	f := away(1)
	f.Cluster.Brokers[2].BelowMin = view.Partitions{Count: 1, Names: []string{"a-0"}}
	f.Twins = twins
	findings, _ := examined(t, clusterChecks(), &f)
	r := health.Report{Broker: 1, Findings: findings}
	r.Add(nil, now)
	if len(r.Findings) != 2 || !strings.Contains(r.Findings[1].Problem+r.Findings[0].Problem, "acks=all is refused") {
		t.Errorf("what it costs: %+v", r.Findings)
	}
	const begin = "processes of broker 3: two processes run with node.id=3: one advertises "
	of := func(addresses ...string) (all []view.Process) {
		for _, a := range addresses {
			all = append(all, view.Process{Address: a})
		}
		return all
	}
	for want, x := range map[string]view.Twins{
		"bad: " + begin + "c:1, and one advertises c:1; each":                 {Processes: of("c:1", "c:1"), Copies: true},
		"warn: " + begin + "c:1, and one advertises d:1; they have different": {Processes: of("c:1", "d:1")},
		"bad: " + begin + "an address that its version does not tell, and ":   {Processes: of("", "d:1"), Copies: true},
	} {
		x.Broker = 3
		findings, _ := examined(t, clusterChecks(), &Facts{Twins: []view.Twins{x}})
		if len(findings) != 1 || !strings.HasPrefix(findings[0].String(), want) {
			t.Errorf("%+v, want %s", findings, want)
		}
	}
}
