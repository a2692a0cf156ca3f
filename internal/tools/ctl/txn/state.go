package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// The states of a transactional id in which a transaction has not ended.
const (
	ongoing       = "Ongoing"
	prepareCommit = "PrepareCommit"
	prepareAbort  = "PrepareAbort"
)

// states returns the states that a coordinator reports.
func states() []string {
	return []string{"Empty", ongoing, prepareCommit, prepareAbort, "CompleteCommit", "CompleteAbort", "Dead"}
}

// decided reports whether the end of a transaction is decided and its markers are being written.
func decided(state string) bool { return state == prepareCommit || state == prepareAbort }

// transaction is a transactional id as its coordinator describes it.
type transaction struct {
	ID          string    `json:"transactionalId"`
	State       string    `json:"state"`
	ProducerID  int64     `json:"producerId"`
	Epoch       int16     `json:"producerEpoch"`
	Coordinator int32     `json:"coordinator"`
	TimeoutMs   int64     `json:"timeoutMs"`
	Started     time.Time `json:"startedAt,omitzero"` // zero without an open transaction
	AgeMs       *int64    `json:"ageMs"`              // nil without an open transaction

	in kadm.TopicsSet // the partitions of the open transaction
}

// timeout returns the time after which the coordinator aborts the transaction.
func (t *transaction) timeout() time.Duration { return time.Duration(t.TimeoutMs) * time.Millisecond }

// age formats the age of the open transaction.
func (t *transaction) age() string {
	if t.AgeMs == nil {
		return ""
	}
	return short(time.Duration(*t.AgeMs) * time.Millisecond)
}

// partitions returns the number of partitions in the open transaction.
func (t *transaction) partitions() (n int) {
	for _, p := range t.in {
		n += len(p)
	}
	return n
}

// short formats a duration to the second, or to the millisecond below ten seconds.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// described returns the transaction of an answer.
func described(d *kadm.DescribedTransaction, now time.Time) *transaction {
	t := &transaction{ID: d.TxnID, State: d.State, ProducerID: d.ProducerID, Epoch: d.ProducerEpoch, Coordinator: d.Coordinator,
		TimeoutMs: int64(d.TimeoutMillis), in: d.Topics}
	if (d.State == ongoing || decided(d.State)) && d.StartTimestamp >= 0 {
		t.Started = time.UnixMilli(d.StartTimestamp).UTC()
		age := max(0, now.UnixMilli()-d.StartTimestamp)
		t.AgeMs = &age
	}
	return t
}

// load describes transactional ids. Ids that no coordinator knows, or whose coordinator does not
// answer, are in failed only.
func load(ctx context.Context, a *app.App, adm *kadm.Client, ids []string) (found map[string]*transaction, failed map[string]error) {
	found, failed = map[string]*transaction{}, map[string]error{}
	left := slices.Clone(ids)
	_ = a.WhenReady(ctx, func() error { // the last errors are in failed
		var again error
		answers, err := adm.DescribeTransactions(ctx, left...)
		now := time.Now()
		for _, id := range left {
			d, ok := answers[id]
			switch {
			case !ok:
				d.Err = cmp.Or(app.BrokerError(err), error(kerr.UnknownServerError))
			case d.Err == nil:
				found[id] = described(&d, now)
				continue
			}
			failed[id] = d.Err
			if app.NotReady(d.Err) {
				again = d.Err
			}
		}
		left = slices.DeleteFunc(left, func(id string) bool { return found[id] != nil })
		return again
	})
	for id := range found {
		delete(failed, id)
	}
	for id, err := range failed {
		failed[id] = refused("transactional id "+id, err)
	}
	return found, failed
}

// refused is app.Refused with the remedies of coordinators of transactions.
func refused(what string, err error) error {
	switch k := (*kerr.Error)(nil); {
	case errors.Is(err, kerr.TransactionalIDNotFound):
		return fmt.Errorf("%s: %s: no coordinator knows it; chronikctl txn list shows the ids", what, kerr.TransactionalIDNotFound.Message)
	case app.NotReady(err) && errors.As(err, &k):
		return fmt.Errorf("%s: %s: its coordinator is loading __transaction_state, or cannot write it: try again; if it persists, "+
			"chronikctl cluster health shows the cause", what, k.Message)
	}
	return app.Refused(what, err, "")
}

// listed returns the transactional ids of all coordinators that match the filters. An error means
// that some are unknown.
func listed(ctx context.Context, a *app.App, adm *kadm.Client, pids []int64, in []string, pattern string) (kadm.ListedTransactions, error) {
	var all kadm.ListedTransactions
	err := a.WhenReady(ctx, func() error {
		var err error
		all, err = adm.ListTransactionsByTxPattern(ctx, pids, in, pattern)
		return app.BrokerError(err)
	})
	if err != nil {
		return nil, refused("list transactions", err)
	}
	return all, nil
}

// stateTopic is the topic of the coordinators.
const stateTopic = "__transaction_state"

// coordinators returns the leader epochs of the partitions of stateTopic, none before it exists. It
// returns an error if one has no leader. It asks a broker: what the client knows may be old.
func coordinators(ctx context.Context, cl *kgo.Client) (map[int32]int32, error) {
	req, t := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(stateTopic)
	req.Topics, req.AllowAutoTopicCreation = append(req.Topics, t), false
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, app.Refused("look up "+stateTopic, app.BrokerError(err), "")
	}
	epochs := map[int32]int32{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 || p.ErrorCode != 0 {
				return nil, fmt.Errorf("%s has no leader, so the transactions of its ids are unknown; chronikctl cluster health shows the cause",
					app.PartitionName(stateTopic, p.Partition))
			}
			epochs[p.Partition] = p.LeaderEpoch
		}
	}
	return epochs, nil
}

// owners returns the transactions of producer ids that coordinators have. It returns an error if it
// cannot know all of them, because a missing owner would look like a hanging transaction. Each
// coordinator lists its own ids, so one that moves meanwhile may be in no list.
func owners(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, pids []int64) (map[int64]*transaction, error) {
	before, err := coordinators(ctx, cl)
	if err != nil {
		return nil, err
	}
	all, err := listed(ctx, a, adm, pids, nil, "")
	if err != nil {
		return nil, err
	}
	found, failed := load(ctx, a, adm, all.TransactionalIDs())
	by := map[int64]*transaction{}
	for _, t := range found {
		by[t.ProducerID] = t
	}
	for _, l := range all.Sorted() {
		if err := failed[l.TxnID]; err != nil && !errors.Is(err, kerr.TransactionalIDNotFound) {
			return nil, err
		}
	}
	after, err := coordinators(ctx, cl)
	if err == nil && !maps.Equal(before, after) {
		err = fmt.Errorf("partitions of %s got other leaders meanwhile, so the transactions of their ids may be unknown; try again", stateTopic)
	}
	return by, err
}

// where is a partition.
type where struct {
	topic string
	index int32
}

func (w where) compare(x where) int {
	return cmp.Or(cmp.Compare(w.topic, x.topic), cmp.Compare(w.index, x.index))
}

// view is what the leader of a partition knows about its open transactions.
type view struct {
	leader int32
	open   []kadm.DescribedProducer // by first offset
	stable int64                    // last stable offset, -1 if it is unknown
	end    int64                    // high watermark, -1 if it is unknown
	err    error                    // why it is unknown
}

// examine returns what the leaders of partitions know. A partition whose leader does not answer has
// an error.
func examine(ctx context.Context, adm *kadm.Client, set kadm.TopicsSet) map[where]*view {
	all := map[where]*view{}
	set.Each(func(topic string, p int32) { all[where{topic, p}] = &view{leader: -1, stable: -1, end: -1} })
	if len(all) == 0 {
		return all
	}
	answers, err := adm.DescribeProducers(ctx, set)
	for w, v := range all {
		d, ok := answers[w.topic].Partitions[w.index]
		switch {
		case !ok:
			v.err = app.Refused(app.PartitionName(w.topic, w.index), cmp.Or(app.BrokerError(err), error(kerr.UnknownTopicOrPartition)), "")
		case d.Err != nil:
			v.err = app.Refused(app.PartitionName(w.topic, w.index), app.Needs(d.Err, app.OnTopic("read", w.topic)), d.ErrMessage)
		default:
			v.leader = d.Leader
			for _, p := range d.ActiveProducers {
				if p.CurrentTxnStartOffset >= 0 {
					v.open = append(v.open, p)
				}
			}
			sorts.Sort(v.open, func(x, y kadm.DescribedProducer) int {
				return cmp.Compare(x.CurrentTxnStartOffset, y.CurrentTxnStartOffset)
			})
		}
	}
	return all
}

// measure adds the last stable offset and the end of each partition.
func measure(ctx context.Context, adm *kadm.Client, all map[where]*view) {
	names := map[string]bool{}
	for w := range all {
		names[w.topic] = true
	}
	topics := slices.Sorted(maps.Keys(names))
	if len(topics) == 0 {
		return
	}
	stable, _ := adm.ListCommittedOffsets(ctx, topics...) // a missing offset is shown as unknown
	ends, _ := adm.ListEndOffsets(ctx, topics...)
	for w, v := range all {
		if o, ok := stable.Lookup(w.topic, w.index); ok && o.Err == nil {
			v.stable = o.Offset
		}
		if o, ok := ends.Lookup(w.topic, w.index); ok && o.Err == nil {
			v.end = o.Offset
		}
	}
}

// of returns the open transaction of a producer.
func (v *view) of(pid int64) (kadm.DescribedProducer, bool) {
	for _, p := range v.open {
		if p.ProducerID == pid {
			return p, true
		}
	}
	return kadm.DescribedProducer{}, false
}

// at returns the open transaction that begins at an offset.
func (v *view) at(offset int64) (kadm.DescribedProducer, bool) {
	for _, p := range v.open {
		if p.CurrentTxnStartOffset == offset {
			return p, true
		}
	}
	return kadm.DescribedProducer{}, false
}

// unknown formats an offset that may be unknown.
func unknown(offset int64) string {
	if offset < 0 {
		return "?"
	}
	return strconv.FormatInt(offset, 10)
}

// held returns how many offsets an open transaction keeps from readers of committed records: those
// between the last stable offset and the end, if the transaction is the first that is open. The
// last stable offset is above its first offset if the records there were deleted.
func (v *view) held(first int64) (n int64, holds bool) {
	if v.stable < first || v.end < 0 || len(v.open) == 0 || v.open[0].CurrentTxnStartOffset != first {
		return 0, false
	}
	return v.end - v.stable, true
}

// inWords lists partitions for people: "orders:0,2, payments:1".
func inWords(set kadm.TopicsSet) string {
	var all []string
	for _, topic := range slices.Sorted(maps.Keys(set)) {
		all = append(all, topic+":"+text.Numbers(slices.Sorted(maps.Keys(set[topic]))))
	}
	return strings.Join(all, ", ")
}
