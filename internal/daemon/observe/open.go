package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/replica"
)

// OpenTransactions reports on the transactions that are open in the partitions that this broker
// leads.
type OpenTransactions struct {
	Self     int32
	Image    func() *metadata.Image
	Replicas *replica.Manager
	Gate     *gate.Gate
	Limit    time.Duration // transaction.max.timeout.ms
}

// opened is a partition with an open transaction.
type opened struct {
	replica.Unstable
	topic     string
	index     int32
	partition *replica.Partition
}

// open returns the led partitions with a transaction that is open, or whose marker is not below the
// high watermark.
func (r *OpenTransactions) open(now time.Time) (all []opened) {
	for t := range r.Image().Topics() {
		for i, at := range t.Partitions.All() {
			if at.Leader != r.Self {
				continue
			}
			p, err := r.Replicas.Partition(t.ID, i)
			if err != nil {
				continue // its log is not open yet
			}
			if u := p.Unstable(now); u.Held {
				all = append(all, opened{u, t.Name, i, p})
			}
		}
	}
	return all
}

// Metrics returns what a scrape shows.
func (r *OpenTransactions) Metrics() (shown []metrics.OpenTransactions) {
	for _, x := range r.open(time.Now()) {
		shown = append(shown, metrics.OpenTransactions{Topic: x.topic, Partition: x.index, Count: len(x.partition.OpenTransactions()),
			LagRecords: x.Records, AgeSeconds: x.Age.Seconds()})
	}
	return shown
}

// Facts is a checks.Source: the partitions with an open transaction.
func (r *OpenTransactions) Facts(f *checks.Facts) {
	if !f.Serving {
		return
	}
	for _, x := range r.open(f.Now) {
		if !x.Open {
			continue // its marker is missing on other brokers, which have findings of their own
		}
		h := checks.Held{Topic: x.topic, Index: x.index, Since: f.Now.Add(-x.Age), Limit: r.Limit,
			First: x.Holder.First, ProducerID: x.Holder.ID, Epoch: x.Holder.Epoch}
		if who, ok := r.Gate.Holder(x.partition, x.Holder.ID); ok {
			h.TransactionalID, h.Client, h.Host = who.TransactionalID, who.ClientID, who.Address
		}
		f.Held = append(f.Held, h)
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
