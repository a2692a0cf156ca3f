package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// grids returns the tables of a report: brokers, topics, groups, clients.
func (r *Report) grids() []*grid {
	brokers := &grid{title: "brokers", empty: "no brokers", defaultSort: 4,
		columns: []string{"BROKER", "ADDRESS", "LEADS", "CONNS", "REQ/S", "IN/S", "OUT/S", "SYNC/S", "SYNC", "CPU", "MEMORY"}}
	const leads = 2
	inCluster := slices.ContainsFunc(r.Brokers, func(b Broker) bool { return b.State != "" })
	if inCluster {
		brokers.columns = slices.Insert(brokers.columns, leads+1, "NOT IN SYNC", "STATE")
		brokers.defaultSort += 2
	}
	for _, b := range r.Brokers {
		row := []cell{number(&b.ID, whole), word(b.Address), number(&b.Leads, whole),
			number(b.Connections, whole),
			number(b.Requests, formatCount), number(b.BytesIn, size), number(b.BytesOut, size), number(b.Syncs, formatCount),
			number(b.SyncMs, ms),
			number(b.CPU, ratio), number(b.Memory, size)}
		if inCluster {
			row = slices.Insert(row, leads+1, number(&b.OutOfSync, whole), word(b.State))
		}
		brokers.rows = append(brokers.rows, row)
	}
	topics := &grid{title: "topics", empty: "no topics", defaultSort: 1, columns: []string{"TOPIC", "RECORDS IN/S", "RECORDS", "SIZE",
		"PARTITIONS"}}
	for _, t := range r.Topics {
		topics.rows = append(topics.rows, []cell{word(t.Topic), number(&t.RecordsIn, formatCount), number(&t.Records, whole),
			number(t.Size, size),
			number(&t.Partitions, whole)})
	}
	groups := &grid{title: "groups", empty: "no groups", defaultSort: 1,
		columns: []string{"GROUP", "LAG", "LAG +/-/S", "RECORDS/S", "MEMBERS", "STATE"}}
	for _, g := range r.Groups {
		state := g.State
		if g.Error != "" {
			state = g.Error
		}
		groups.rows = append(groups.rows, []cell{word(g.Group), number(g.Lag, whole), number(g.Growth, signed), number(g.Read, formatCount),
			number(g.Members, whole), word(state)})
	}
	clients := &grid{title: "clients", empty: "no clients are known", defaultSort: 2,
		columns: []string{"CLIENT", "HOST", "REQ/S", "RECORDS IN/S", "IN/S", "OUT/S", "CONNS", "IN FLIGHT", "SOFTWARE"}}
	for _, c := range r.Clients {
		software := c.Software
		if c.Throttled {
			software = strings.TrimSpace(software + " (throttled)")
		}
		clients.rows = append(clients.rows, []cell{word(or(c.ClientID, "-")), word(c.Host), number(&c.Requests, formatCount),
			number(&c.RecordsIn, formatCount),
			number(&c.BytesIn, size), number(&c.BytesOut, size), number(&c.Connections, whole), number(&c.InFlight, whole),
			word(or(software, "-"))})
	}
	return []*grid{brokers, topics, groups, clients}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Escape sequences (ECMA-48): reverse video on and off.
const (
	reverse = "\x1b[7m"
	plain   = "\x1b[0m"
)

// screen is the content to draw: a report, and the state of the last sample.
type screen struct {
	report *Report // nil before the second sample
	seeds  string
	waits  time.Duration // how long the last sample has been pending; 0 if none is
	err    error         // error of the last sample
}

// draw returns the lines of a terminal of this size.
func (s *screen) draw(st *state, width, height int) []string {
	lines := []string{cut(s.headline(st), width), cut(s.status(), width)}
	if st.help {
		return clip(append(lines, helpLines()...), width, height)
	}
	if s.report == nil {
		return clip(append(lines, "measuring…"), width, height)
	}
	grids := s.report.grids()
	for i, g := range grids {
		g.sort(st.sortedBy(i, g), st.reversed[i])
	}
	var shown []int
	for i := range grids {
		if st.view == all || st.view == i {
			shown = append(shown, i)
		}
	}
	room := shares(grids, shown, height-len(lines))
	for n, i := range shown {
		first := 0
		if st.view != all {
			st.first = min(st.first, max(len(grids[i].rows)-(room[n]-1), 0))
			first = st.first
		}
		head, rows := grids[i].lines(width, room[n], first, st.sortedBy(i, grids[i]), st.reversed[i])
		lines = append(lines, reverse+pad(head, width)+plain)
		lines = append(lines, rows...)
		if len(grids[i].rows) == 0 && room[n] > 1 {
			lines = append(lines, cut(grids[i].empty, width))
		}
	}
	return clip(lines, width, height)
}

// shares divides the lines among the tables: a table that needs less than its share leaves the rest
// to the others. Each table has at least two lines: its head and one more.
func shares(grids []*grid, shown []int, height int) []int {
	room := make([]int, len(shown))
	for left, open := height, len(shown); open > 0; {
		part, fixed := max(left/open, 2), false
		for n, i := range shown {
			if need := max(len(grids[i].rows), 1) + 1; room[n] == 0 && need <= part {
				room[n], fixed = need, true
				left -= need
				open--
			}
		}
		if fixed {
			continue
		}
		for n := range shown {
			if room[n] == 0 {
				room[n] = part
			}
		}
		break
	}
	return room
}

func (s *screen) headline(st *state) string {
	at := "--:--:--"
	if s.report != nil {
		at = s.report.At.Format(time.TimeOnly)
	}
	line := fmt.Sprintf("chronikctl top  %s  %s  every %v", s.seeds, at, st.every)
	if st.paused {
		line += "  PAUSED"
	}
	return line + "  (? help, q quit)"
}

// status says why the screen is incomplete or out of date; empty if it is not.
func (s *screen) status() string {
	switch {
	case s.err != nil:
		return "not up to date: " + strings.ReplaceAll(s.err.Error(), "\n", "; ")
	case s.waits >= 2*time.Second:
		return fmt.Sprintf("not up to date: the broker has not answered for %v", s.waits.Truncate(time.Second))
	case s.report != nil && len(s.report.Missing) > 0:
		return "note: " + strings.ReplaceAll(strings.Join(s.report.Missing, "; "), "\n", "; ")
	}
	return ""
}

// clip cuts lines that do not fit on the screen.
func clip(lines []string, width, height int) []string {
	lines = lines[:min(len(lines), max(height, 0))]
	for i, l := range lines {
		if !strings.HasPrefix(l, reverse) {
			lines[i] = cut(l, width)
		}
	}
	return lines
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-len([]rune(s)), 0))
}
