package checks

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
)

// TierFailure is a partition whose records cannot be copied to the object store, or read there.
type TierFailure struct {
	Topic     string
	Partition int32
	Since     time.Time
	Error     string
}

func (u *TierFailure) String() string { return fmt.Sprintf("%s-%d", u.Topic, u.Partition) }

// uncopiedAfter is for how long copies may fail before it is a finding: a store that restarts is
// none.
const uncopiedAfter = 3 * time.Minute

// ids matches what differs between errors with the same cause: names of objects, offsets, addresses
// of the broker's own sockets.
var ids = regexp.MustCompile(`[0-9a-fA-F]{8,}|[0-9]+`)

// cause returns the text of an error without the partition and ids in it.
func (u *TierFailure) cause() string {
	return ids.ReplaceAllString(strings.ReplaceAll(u.Error, u.String(), "partition"), "#")
}

// shownCauses is how many reasons a finding has.
const shownCauses = 3

// checkTier notes partitions whose records are not copied, or cannot be read. One store is the
// usual reason for all of them, so each is one finding, which has each reason once.
func checkTier(f *Facts, n *notes) {
	add := func(severity health.Severity, subject, problem, works, remedy string) {
		n.addFinding(health.Finding{Severity: severity, Subject: subject, Problem: problem, Works: works,
			Remedy: remedy + "; docs/tiered-storage.md has more"})
	}
	if all, since, reasons := tierFailures(f.Unread, f.Now); all > 0 {
		add(health.Bad, "reads from the object store", fmt.Sprintf(
			"records of %s that only the object store has cannot be read since %s (%s)", text.Count(all, "partition"), since, reasons),
			"records are acknowledged, and those on the local disks are served",
			"mend what the reason says; clients repeat their requests. An object that is missing or damaged must come back from a copy of "+
				"the store, or its records are lost")
	}
	if all, since, reasons := tierFailures(f.Uncopied, f.Now.Add(-uncopiedAfter)); all > 0 {
		add(health.Warn, "copies in the object store", fmt.Sprintf(
			"no record of %s was copied to the object store since %s (%s); the local disks keep what is not copied, and fill up",
			text.Count(all, "partition"), since, reasons),
			"records are acknowledged, and those on the local disks are served",
			"mend what the reason says; the broker tries again. If a disk runs out of space before, add space")
	}
}

// tierFailures returns how many partitions have failed since a time or longer, since when, and the
// reasons with their partitions.
func tierFailures(list []TierFailure, before time.Time) (all int, from, reasons string) {
	byCause := map[string][]string{} // names of partitions
	var causes []string
	first := map[string]string{} // the error of the first partition
	var since time.Time
	for i := range list {
		u := &list[i]
		if u.Since.After(before) {
			continue
		}
		cause := u.cause()
		if byCause[cause] == nil {
			causes, first[cause] = append(causes, cause), u.Error
		}
		byCause[cause] = append(byCause[cause], u.String())
		if all++; all == 1 || u.Since.Before(since) {
			since = u.Since
		}
	}
	var texts []string
	for _, cause := range causes[:min(len(causes), shownCauses)] {
		names := byCause[cause]
		texts = append(texts, fmt.Sprintf("%s: %s", listed(names, len(names)), first[cause]))
	}
	if more := len(causes) - shownCauses; more > 0 {
		texts = append(texts, text.Count(more, "other reason"))
	}
	return all, since.UTC().Format(time.RFC3339), strings.Join(texts, "; ")
}
