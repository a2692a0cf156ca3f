package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// sort sorts the lists, the busiest first and unknown ones last. Those that are equal stay sorted
// by name.
func (r *Rates) sort() {
	sorts.SortStable(r.Brokers, func(x, y BrokerRates) int { return descending(x.Requests, y.Requests) })
	sorts.SortStable(r.Topics, func(x, y TopicRates) int { return descending(x.RecordsIn, y.RecordsIn) })
	sorts.SortStable(r.Groups, func(x, y GroupRates) int { return descending(x.Lag, y.Lag) })
	sorts.SortStable(r.Clients, func(x, y ClientRates) int { return descending(x.Requests, y.Requests) })
}

func descending[T cmp.Ordered](x, y *T) int {
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return 1
	case y == nil:
		return -1
	}
	return cmp.Compare(*y, *x)
}

// tables returns the lists as tables of at most limit rows; 0 means all.
func (r *Rates) tables(limit int) []*output.Table {
	brokers := &output.Table{Title: "brokers", Empty: "no brokers", Columns: []string{"BROKER#", "ADDRESS", "LEADS#", "CONNS#", "REQ/S#",
		"IN/S#", "OUT/S#", "SYNC/S#", "SYNC#", "CPU#", "MEMORY#"}}
	const leads = 2
	inCluster := slices.ContainsFunc(r.Brokers, func(b BrokerRates) bool { return b.State != "" })
	if inCluster {
		brokers.Columns = slices.Insert(brokers.Columns, leads+1, "NOT IN SYNC#", "STATE")
	}
	for _, b := range r.Brokers {
		row := []any{b.ID, b.Address, b.Leads, known(b.Connections, whole), known(b.Requests, count), known(b.BytesIn, size),
			known(b.BytesOut, size), known(b.Syncs, count), known(b.SyncMs, ms), known(b.CPU, ratio), known(b.Memory, size)}
		if inCluster {
			row = slices.Insert(row, leads+1, any(b.OutOfSync), any(b.State))
		}
		brokers.Add(row...)
	}
	topics := &output.Table{Title: "topics", Empty: "no topics", Columns: []string{"TOPIC", "RECORDS IN/S#", "RECORDS#", "SIZE#",
		"PARTITIONS#"}}
	for _, t := range r.Topics {
		topics.Add(t.Topic, known(t.RecordsIn, count), t.Records, known(t.Size, size), t.Partitions)
	}
	groups := &output.Table{Title: "groups", Empty: "no groups", Columns: []string{"GROUP", "LAG#", "LAG +/-/S#", "RECORDS/S#",
		"MEMBERS#", "STATE"}}
	for _, g := range r.Groups {
		groups.Add(g.Group, known(g.Lag, whole), known(g.Growth, signed), known(g.Read, count), known(g.Members, whole),
			cmp.Or(g.Error, g.State))
	}
	clients := &output.Table{Title: "clients", Empty: "no clients are known", Columns: []string{"CLIENT", "HOST", "REQ/S#",
		"RECORDS IN/S#", "IN/S#", "OUT/S#", "CONNS#", "IN FLIGHT#", "SOFTWARE"}}
	for _, c := range r.Clients {
		software := c.Software
		if c.Throttled {
			software = strings.TrimSpace(software + " (throttled)")
		}
		clients.Add(c.ClientID, c.Host, known(c.Requests, count), known(c.RecordsIn, count), known(c.BytesIn, size),
			known(c.BytesOut, size), c.Connections, c.InFlight, software)
	}
	all := []*output.Table{brokers, topics, groups, clients}
	for _, t := range all {
		if n := len(t.Rows); limit > 0 && n > limit {
			t.Title = fmt.Sprintf("%s, %d of %d", t.Title, limit, n)
			t.Rows = t.Rows[:limit]
		}
	}
	return all
}

// known formats a number, or returns a question mark if it is unknown.
func known[T int | int64 | float64](v *T, format func(float64) string) string {
	if v == nil {
		return "?"
	}
	return format(float64(*v))
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

// count formats a count or a rate: 0.4, 12, 5400, 1.25M.
func count(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 10:
		return fmt.Sprintf("%.1f", v)
	case a < 1e4:
		return fmt.Sprintf("%.0f", v)
	case a < 1e6:
		return fmt.Sprintf("%.1fk", v/1e3)
	case a < 1e9:
		return fmt.Sprintf("%.2fM", v/1e6)
	}
	return fmt.Sprintf("%.2fG", v/1e9)
}

// signed is count with a plus sign for growth.
func signed(v float64) string {
	if v > 0 {
		return "+" + count(v)
	}
	return count(v)
}

func size(v float64) string { return text.Bytes(int64(v)) }

func ms(v float64) string { return fmt.Sprintf("%.2f ms", v) }

func ratio(v float64) string { return fmt.Sprintf("%.2f", v) }
