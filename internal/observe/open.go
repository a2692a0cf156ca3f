package observe

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// OpenTransactions reports on the transactions that are open in the partitions that this broker
// leads.
type OpenTransactions struct {
	Self     int32
	Replicas *replica.Manager
	Gate     *gate.Gate
	Limit    time.Duration // transaction.max.timeout.ms
}

// at returns the led partitions with a transaction that is open, or whose marker is not below the
// high watermark.
func (r *OpenTransactions) at(now time.Time) (all []view.Held) {
	for _, p := range r.Replicas.Unstable() {
		if leader, _ := p.Leader(); leader != r.Self {
			continue
		}
		u := p.Unstable(now)
		if !u.Held {
			continue
		}
		h := view.Held{Topic: p.Log().Topic(), Partition: p.Log().ID().Partition, Open: u.Open, Count: len(p.OpenTransactions()),
			Lag: u.Records, Age: u.Age, Limit: r.Limit, First: u.Holder.First, ProducerID: u.Holder.ID, Epoch: u.Holder.Epoch}
		if who, ok := r.Gate.Holder(p, u.Holder.ID); ok && u.Open {
			h.TransactionalID, h.Client, h.Host = who.TransactionalID, who.ClientID, who.Address
		}
		all = append(all, h)
	}
	sorts.Sort(all, func(a, b view.Held) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

// View returns the partitions whose last stable offset is held now.
func (r *OpenTransactions) View() []view.Held { return r.at(time.Now()) }

// Facts is a checks.Source.
func (r *OpenTransactions) Facts(f *checks.Facts) {
	if f.Serving {
		f.Held = r.at(f.Now)
	}
}

// Decided returns the function that counts and measures the transactions that end.
func Decided(m *metrics.TransactionEnds) func(commit bool, reason txn.Reason, open time.Duration) {
	ended, open := map[end]prometheus.Counter{}, map[bool]prometheus.Observer{}
	for _, commit := range []bool{false, true} {
		open[commit] = m.Duration.WithLabelValues(resultOf(commit))
		ended[end{commit, txn.ByClient}] = m.Ended.WithLabelValues(resultOf(commit), string(txn.ByClient))
	}
	return func(commit bool, reason txn.Reason, took time.Duration) {
		open[commit].Observe(took.Seconds())
		if c := ended[end{commit, reason}]; c != nil {
			c.Inc()
			return
		}
		m.Ended.WithLabelValues(resultOf(commit), string(reason)).Inc()
	}
}

// end is how a transaction ended.
type end struct {
	commit bool
	reason txn.Reason
}

// Marked returns the function that measures how long the markers of a transaction take.
func Marked(m *metrics.TransactionEnds) func(commit bool, took time.Duration) {
	marker := map[bool]prometheus.Observer{}
	for _, commit := range []bool{false, true} {
		marker[commit] = m.Marker.WithLabelValues(resultOf(commit))
	}
	return func(commit bool, took time.Duration) { marker[commit].Observe(took.Seconds()) }
}

// Refused returns the function that counts the markers that are repeated.
func Refused(m *metrics.TransactionEnds) func(*kerr.Error) {
	return func(err *kerr.Error) { m.Refused.WithLabelValues(err.Message).Inc() }
}

// Crowded returns the function that counts what is done about too many transactional ids.
func Crowded(m *metrics.TransactionEnds) func(removed int, _ time.Duration) {
	return func(removed int, _ time.Duration) {
		if removed > 0 {
			m.Crowded.WithLabelValues("removed").Add(float64(removed))
		} else {
			m.Crowded.WithLabelValues("refused").Inc()
		}
	}
}

func resultOf(commit bool) string {
	if commit {
		return "commit"
	}
	return "abort"
}
