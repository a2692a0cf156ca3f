package checks

import (
	"cmp"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

const (
	// shareStored is how old a write may be: after that acknowledgements are refused.
	shareStored = 30 * time.Second
	// shareLoaded is how long a load may take while its coordinator is loaded.
	shareLoaded = time.Minute
	// shareCopied is for how long copies of dead letters may fail: leaders change meanwhile.
	shareCopied = 30 * time.Second
	// shareMoved is for how long a full window need not move: members have that long for a record.
	shareMoved = 5 * time.Minute
)

// checkShares notes share partitions that do not deliver records, the worst first.
func checkShares(f *Facts, n *notes) {
	var list []*health.Finding
	for i := range f.SlowShares {
		if x, bad := slowShare(f.Now, &f.SlowShares[i]); bad {
			list = append(list, &x)
		}
	}
	sorts.Sort(list, func(a, b *health.Finding) int {
		return cmp.Or(cmp.Compare(worst(a), worst(b)), cmp.Compare(a.Subject, b.Subject))
	})
	for i, x := range list {
		if i == mostGroups {
			n.add(x.Severity, "share groups", fmt.Sprintf("%d more share partitions do not deliver records", len(list)-i),
				health.Command("chronikctl", "cluster", "health")+" names them when the first ones deliver again")
			return
		}
		n.addFinding(*x)
	}
}

// worst is a number that is lower for worse findings.
func worst(x *health.Finding) int {
	if x.Severity == health.Bad {
		return 0
	}
	return 1
}

// setPosition is the remedy for a share partition without a state that can be used.
func setPosition(s *view.SlowShare) string {
	return "stop its members, and set its position: " + health.Command("chronikctl", "group", "reset", s.Group, "--topic",
		fmt.Sprintf("%s:%d", s.Topic, s.Partition), "--to-earliest") + "; records are then delivered again (docs/share-groups.md)"
}

// slowShare returns the finding about a share partition; false: it is well.
func slowShare(now time.Time, s *view.SlowShare) (health.Finding, bool) {
	since := func(d time.Duration) string { return now.Add(-d).Truncate(time.Second).UTC().Format(time.RFC3339) }
	x := health.Finding{Severity: health.Warn, Subject: fmt.Sprintf("share group %s of %s-%d", s.Group, s.Topic, s.Partition),
		Works: "other partitions of the group are served"}
	describe := health.Command("chronikctl", "group", "describe", s.Group)
	switch {
	case s.Failed:
		x.Severity = health.Bad
		x.Problem = "no records are delivered: its stored state cannot be used (KAFKA_STORAGE_ERROR), as records of " +
			"__share_group_state are missing or invalid"
		x.Remedy = setPosition(s)
	case s.Absent:
		x.Problem = fmt.Sprintf("no records are delivered since %s, although members fetch: %s", since(s.Loading), s.Unloaded)
		x.Remedy = "if the topic is one of the group, " + setPosition(s)
	case s.Loading >= shareLoaded && s.Unloaded != "":
		x.Problem = fmt.Sprintf("no records are delivered: loads of its state have failed since %s: %s", since(s.Loading), s.Unloaded)
		x.Remedy = "mend what the reason says; the load is repeated"
	case s.Loading >= shareLoaded:
		x.Problem = "no records are delivered: its state has been loading since " + since(s.Loading)
		x.Remedy = "the broker repeats the load; bring back the leaders of __share_group_state, which other findings name"
	case s.Writing >= shareStored:
		x.Severity = health.Bad
		x.Problem = "no records are delivered, and acknowledgements fail: a write to its share coordinator has had no answer since " +
			since(s.Writing)
		x.Remedy = "the broker repeats the write; bring back the leaders and replicas of __share_group_state, and check their disks"
	case s.Uncopied >= shareCopied:
		x.Works = "other records are delivered as long as the window has room for those that wait"
		x.Problem = fmt.Sprintf("%s for the copy in the topic of dead letters, as no copy was possible since %s: %s",
			text.Plural(s.Archiving, "record waits", "records wait"), since(s.Uncopied), s.Uncopyable)
		x.Remedy = "the broker tries again every 10 s; mend what the reason says, or archive the records without copies: " +
			health.Command("chronikctl", "config", "unset", "group", s.Group, "errors.deadletterqueue.topic.name")
	case s.Full >= shareMoved && s.Archiving > 0:
		x.Problem = fmt.Sprintf("no records are delivered: its window has been full since %s, and %s for the copy in the topic of dead letters",
			since(s.Full), text.Plural(s.Archiving, "record waits", "records wait"))
		x.Remedy = "check the topic of dead letters of the group: it must exist, accept records of this size, and have leaders"
	case s.Full >= shareMoved:
		x.Problem = fmt.Sprintf("no records are delivered: its window has been full since %s, as no member finishes the record at offset %d",
			since(s.Full), s.Start)
		x.Remedy = describe + " shows its members; end the one that holds the record, or raise share.partition.max.record.locks"
	default:
		return x, false
	}
	return x, true
}
