package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// detail is a transactional id in the answer of describe.
type detail struct {
	*transaction
	Partitions []part `json:"partitions"`
}

// part is a partition of an open transaction.
type part struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Leader    *int32 `json:"leader"` // nil if it is unknown
	// First is the first offset of the transaction, nil if none of it is there or it has ended
	// there.
	First  *int64 `json:"firstOffset"`
	Stable *int64 `json:"lastStableOffset"` // nil if it is unknown
	End    *int64 `json:"end"`              // nil if it is unknown
	Marker string `json:"marker,omitempty"` // missing or written, if the end is decided
	Error  string `json:"error,omitempty"`
}

func describe(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use: "describe ID...", Short: "Show transactions and their partitions", Args: app.Args(1, -1, "at least one transactional id"),
		ValidArgsFunction: transactionalIDs(a, 0),
		Example:           "  chronikctl txn describe billing-1\n  chronikctl txn describe billing-1 billing-2 -o json",
		Long: "describe shows the state of transactional ids, and the partitions of an open transaction: the first offset of the\n" +
			"transaction. LSO is the offset at which readers of committed records stop. In the states PrepareCommit and\n" +
			"PrepareAbort the outcome is decided, and MARKER shows which partitions still wait for it.",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, ids []string) error { return runDescribe(ctx, a, adm, ids) }),
	}
	return a.Watched(c)
}

// transactionalIDs suggests transactional ids.
func transactionalIDs(a *app.App, most int) app.Completion {
	return a.Names(most, func(ctx context.Context, adm *kadm.Client) ([]string, error) {
		ids, err := adm.ListTransactions(ctx, nil, nil)
		return ids.TransactionalIDs(), err
	})
}

func runDescribe(ctx context.Context, a *app.App, adm *kadm.Client, ids []string) error {
	found, failed := load(ctx, a, adm, ids)
	set := kadm.TopicsSet{}
	for _, t := range found {
		set.Merge(t.in)
	}
	leaders := examine(ctx, adm, set)
	measure(ctx, adm, leaders)
	all := []detail{}
	var tables []*output.Table
	var wrong []error
	for _, id := range ids {
		t := found[id]
		if t == nil {
			wrong = append(wrong, failed[id])
			continue
		}
		d := detail{t, []part{}}
		t.in.Each(func(topic string, p int32) {
			w := where{topic, p}
			d.Partitions = append(d.Partitions, partOf(t, w, leaders[w]))
		})
		sorts.Sort(d.Partitions, func(x, y part) int { return where{x.Topic, x.Partition}.compare(where{y.Topic, y.Partition}) })
		all = append(all, d)
		tables = append(tables, d.table(leaders))
	}
	if len(all) > 0 {
		wrong = append([]error{a.Print(all, tables...)}, wrong...)
	}
	return errors.Join(wrong...)
}

// partOf describes a transaction in one of its partitions.
func partOf(t *transaction, w where, v *view) part {
	p := part{Topic: w.topic, Partition: w.index, Stable: offset(v.stable), End: offset(v.end)}
	if v.err != nil {
		p.Error = v.err.Error()
		return p
	}
	p.Leader = &v.leader
	open, ok := v.of(t.ProducerID)
	if ok {
		p.First = &open.CurrentTxnStartOffset
	}
	if decided(t.State) {
		p.Marker = map[bool]string{true: "missing", false: "written"}[ok]
	}
	return p
}

// offset returns an offset, or nil if it is unknown.
func offset(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// table formats a transaction for people.
func (d *detail) table(leaders map[where]*view) *output.Table {
	head := []string{"transactional id " + text.Plain(d.ID), d.State, fmt.Sprintf("producer id %d", d.ProducerID),
		fmt.Sprintf("epoch %d", d.Epoch), fmt.Sprintf("coordinator %d", d.Coordinator), fmt.Sprintf("timeout %v", d.timeout())}
	if d.AgeMs != nil {
		head = append(head, "started "+started(d.transaction), "age "+d.age())
	}
	t := &output.Table{Title: strings.Join(head, "  "),
		Columns: []string{"TOPIC", "PARTITION#", "FIRST#", "LSO#", "END#", "MARKER", "+LEADER#",
			"+ERROR"}, Empty: "no open transaction"}
	if d.AgeMs != nil {
		t.Empty = "no partitions"
	}
	for i := range d.Partitions {
		p := &d.Partitions[i]
		v := leaders[where{p.Topic, p.Partition}]
		first, leader := "-", "?"
		switch {
		case p.Error != "":
			first = "?"
		case p.First != nil:
			first = fmt.Sprint(*p.First)
		}
		if p.Leader != nil {
			leader = fmt.Sprint(*p.Leader)
		}
		t.Add(p.Topic, p.Partition, first, unknown(v.stable), unknown(v.end), p.Marker, leader, p.Error)
	}
	return t
}
