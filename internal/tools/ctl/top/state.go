package top

import (
	"slices"
	"strings"
	"time"
)

// Views of the screen: one table, by its index in Report.grids, or all.
const (
	brokersView = iota
	topicsView
	groupsView
	clientsView
	viewCount
	all = -1
)

// state is what the user has selected with keys.
type state struct {
	view     int
	every    time.Duration
	internal bool
	paused   bool
	help     bool
	quit     bool
	first    int             // first row of a single table
	column   [viewCount]int  // sort column of each table, counted from 1; 0 is the default
	reversed [viewCount]bool // reversed sort order
}

func (s *state) sortedBy(view int, g *grid) int {
	if s.column[view] == 0 {
		return g.defaultSort
	}
	return s.column[view] - 1
}

// key is the action of a key.
type key struct {
	names []string
	what  string
	do    func(s *state, g []*grid) // g holds the tables on the screen
}

// keys returns all keys, in the order of the help.
func keys() []key {
	show := func(view int) func(*state, []*grid) {
		return func(s *state, _ []*grid) { s.view, s.first, s.help = view, 0, false }
	}
	scroll := func(n int) func(*state, []*grid) {
		return func(s *state, _ []*grid) { s.first = max(s.first+n, 0) }
	}
	return []key{
		{[]string{"a"}, "all tables", show(all)},
		{[]string{"b"}, "brokers", show(brokersView)},
		{[]string{"t"}, "topics", show(topicsView)},
		{[]string{"g"}, "groups", show(groupsView)},
		{[]string{"c"}, "clients", show(clientsView)},
		{[]string{"<", "left"}, "sort one table by the column to the left", func(s *state, g []*grid) { s.sortByNeighbor(g, -1) }},
		{[]string{">", "right"}, "sort one table by the column to the right", func(s *state, g []*grid) { s.sortByNeighbor(g, 1) }},
		{[]string{"r"}, "reverse the order of one table", func(s *state, _ []*grid) {
			if s.view != all {
				s.reversed[s.view] = !s.reversed[s.view]
			}
		}},
		{[]string{"k", "up"}, "scroll one table up", scroll(-1)},
		{[]string{"j", "down"}, "scroll one table down", scroll(1)},
		{[]string{"i"}, "show or hide internal topics", func(s *state, _ []*grid) { s.internal = !s.internal }},
		{[]string{"p", "space"}, "pause or resume", func(s *state, _ []*grid) { s.paused = !s.paused }},
		{[]string{"+"}, "measure twice as often", func(s *state, _ []*grid) { s.every = max(s.every/2, minInterval) }},
		{[]string{"-"}, "measure half as often", func(s *state, _ []*grid) { s.every = min(s.every*2, maxInterval) }},
		{[]string{"?", "h"}, "show this help; any key closes it", func(s *state, _ []*grid) { s.help = true }},
		{[]string{"q"}, "end", func(s *state, _ []*grid) { s.quit = true }},
	}
}

// press performs the action of a key. It ignores unknown keys.
func (s *state) press(name string, g []*grid) {
	wasHelp := s.help
	s.help = false
	if wasHelp && name != "q" {
		return
	}
	for _, k := range keys() {
		if slices.Contains(k.names, name) {
			k.do(s, g)
			return
		}
	}
}

// sortByNeighbor sorts the only visible table by a neighbour of its sort column.
func (s *state) sortByNeighbor(g []*grid, by int) {
	if s.view == all || s.view >= len(g) {
		return
	}
	t := g[s.view]
	s.column[s.view] = 1 + min(max(s.sortedBy(s.view, t)+by, 0), len(t.columns)-1)
}

func helpLines() []string {
	lines := []string{"Keys:"}
	for _, k := range keys() {
		name := strings.Join(k.names, ", ")
		lines = append(lines, "  "+name+strings.Repeat(" ", max(10-len(name), 1))+k.what)
	}
	return lines
}

// readKeys returns the names of the keys in a terminal's input: characters and arrow sequences.
func readKeys(p []byte) (names []string) {
	arrows := map[byte]string{'A': "up", 'B': "down", 'C': "right", 'D': "left"}
	for i := 0; i < len(p); i++ {
		switch {
		case p[i] == 0x1b && i+2 < len(p) && (p[i+1] == '[' || p[i+1] == 'O'):
			if name, ok := arrows[p[i+2]]; ok {
				names = append(names, name)
			}
			i += 2
		case p[i] == ' ':
			names = append(names, "space")
		case p[i] > ' ' && p[i] < 0x7f:
			names = append(names, string(p[i:i+1]))
		}
	}
	return names
}
