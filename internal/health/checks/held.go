package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

const (
	// openGrace is how much longer than its timeout a transaction may be open: its coordinator
	// aborts it at the timeout and then writes the markers.
	openGrace = time.Minute
	// mostTransactions is how many transactions of each kind are named.
	mostTransactions = 10
)

// checkHeld notes transactions that have been open for too long.
func checkHeld(f *Facts, n *notes) {
	// If only the marker is missing on other brokers, these have findings of their own.
	held := slices.DeleteFunc(slices.Clone(f.Held), func(h view.Held) bool { return !h.Open })
	if len(held) > 0 {
		n.see(text.Count(len(held), "partition") + " with an open transaction")
	}
	sorts.Sort(held, func(a, b view.Held) int { return cmp.Compare(b.Age, a.Age) })
	late := 0
	for i := range held {
		h := &held[i]
		if h.Age <= h.Limit+openGrace {
			break // the others are younger
		}
		if late++; late > mostTransactions {
			continue
		}
		where := []string{"--topic", h.Topic, "--partition", strconv.Itoa(int(h.Partition))}
		x := health.OfLog(fmt.Sprintf("%s-%d", h.Topic, h.Partition))
		x.Severity = health.Warn
		x.Problem = fmt.Sprintf("a transaction of %s has been open since offset %d for more than %v, the longest timeout of a transaction: "+
			"readers of committed records wait there, and retention and compaction stop", who(h), h.First, h.Limit+openGrace)
		x.Works = "records can be written, and read with read_uncommitted"
		x.Remedy = health.Command(append([]string{"chronikctl", "txn", "find-hanging"}, where...)...) +
			" shows whether it hangs; then " + health.Command(append([]string{"chronikctl", "txn", "abort", "--start-offset",
			strconv.FormatInt(h.First, 10)}, where...)...) + " ends it"
		n.addFinding(x)
	}
	if more := late - mostTransactions; more > 0 {
		n.add(health.Warn, "transactions", text.Count(more, "more partition")+" with a transaction that is open for too long",
			health.Command("chronikctl", "txn", "find-hanging")+" lists them")
	}
}

// who names the producer of the transaction.
func who(h *view.Held) string {
	x := fmt.Sprintf("producer %d (epoch %d", h.ProducerID, h.Epoch)
	if h.TransactionalID != "" {
		x += ", transactional id " + h.TransactionalID
	}
	if h.Client != "" || h.Host != "" {
		x += ", client " + strings.Trim(h.Client+" at "+h.Host, " ")
	}
	return x + ")"
}
