package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
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
	if len(f.Held) > 0 {
		n.see(text.Count(len(f.Held), "partition") + " with an open transaction")
	}
	held := slices.Clone(f.Held)
	slices.SortFunc(held, func(a, b Held) int { return a.Since.Compare(b.Since) })
	late := 0
	for i := range held {
		h := &held[i]
		if f.Now.Sub(h.Since) <= h.Limit+openGrace {
			break // the others are younger
		}
		if late++; late > mostTransactions {
			continue
		}
		where := []string{"--topic", h.Topic, "--partition", strconv.Itoa(int(h.Index))}
		n.addFinding(health.Finding{
			Severity: health.Warn,
			Subject:  fmt.Sprintf("partition %s-%d", h.Topic, h.Index),
			Problem: fmt.Sprintf("a transaction of %s has been open since offset %d for more than %v, the longest timeout of a transaction: "+
				"readers of committed records wait there, and retention and compaction stop", h.who(), h.First, h.Limit+openGrace),
			Works: "records can be written, and read with read_uncommitted",
			Remedy: health.Command(append([]string{"chronikctl", "txn", "find-hanging"}, where...)...) +
				" shows whether it hangs; then " + health.Command(append([]string{"chronikctl", "txn", "abort", "--start-offset",
				strconv.FormatInt(h.First, 10)}, where...)...) + " ends it",
		})
	}
	if more := late - mostTransactions; more > 0 {
		n.add(health.Warn, "transactions", text.Count(more, "more partition")+" with a transaction that is open for too long",
			health.Command("chronikctl", "txn", "find-hanging")+" lists them")
	}
}

// who names the producer of the transaction.
func (h *Held) who() string {
	who := fmt.Sprintf("producer %d (epoch %d", h.ProducerID, h.Epoch)
	if h.TransactionalID != "" {
		who += ", transactional id " + h.TransactionalID
	}
	if h.Client != "" || h.Host != "" {
		who += ", client " + strings.Trim(h.Client+" at "+h.Host, " ")
	}
	return who + ")"
}
