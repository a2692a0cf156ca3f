package check

import (
	"fmt"
	"sync"
)

// Group is the history of one partition in a consumer group whose members commit what they have
// consumed. Its methods may be called concurrently.
//
// A commit without an answer may take effect at any later time, as for a Register.
type Group struct {
	mu          sync.Mutex
	consumed    map[int64]bool
	attempted   int64          // the largest offset of a commit that was sent
	open        map[int64]bool // offsets of commits without an answer
	acked       int64          // the largest offset of a commit that was acknowledged
	generation  int32          // the largest one whose commit was acknowledged
	lost        bool           // commits may be lost
	recordsLost bool           // consumed records may be lost
	problems    []string
}

// Begun notes that a member begins to consume at an offset, and what was acknowledged when it asked
// for its assignment: the result of Acked then.
func (g *Group) Begun(offset, acked int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if bad := g.wrong(offset, acked); bad != "" {
		g.problems = append(g.problems, bad+" when a member began")
	}
}

// wrong returns what is wrong with a stored offset. Caller holds mu.
func (g *Group) wrong(offset, acked int64) string {
	switch {
	case offset < acked && !g.open[offset] && !g.lost && !g.recordsLost: // a reset after OFFSET_OUT_OF_RANGE
		return fmt.Sprintf("went back: the offset was %d, and %d was committed before", offset, acked)
	case offset > g.attempted:
		return fmt.Sprintf("skipped: the offset was %d, and %d was the last one that was sent", offset, g.attempted)
	}
	return ""
}

// Consumed notes that a member has consumed the record at an offset.
func (g *Group) Consumed(offset int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.consumed == nil {
		g.consumed = map[int64]bool{}
	}
	g.consumed[offset] = true
}

// Committing notes that a member is about to commit an offset, that of the next record, in a
// generation of the group. The result must be called when the commit is acknowledged.
func (g *Group) Committing(generation int32, offset int64) (acked func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[int64]bool{}
	}
	g.attempted, g.open[offset] = max(g.attempted, offset), true
	later := g.generation
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.open, offset)
		if generation < later && !g.lost {
			g.problems = append(g.problems,
				fmt.Sprintf("fenced: a commit of generation %d was accepted after one of generation %d", generation, later))
		}
		g.acked, g.generation = max(g.acked, offset), max(g.generation, generation)
	}
}

// Acked returns the largest offset whose commit was acknowledged.
func (g *Group) Acked() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.acked
}

// Lose notes that acknowledged commits may be lost from now on.
func (g *Group) Lose() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = true
}

// LoseRecords notes that records may be lost. Others may take their offsets, below a commit.
func (g *Group) LoseRecords() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.recordsLost = true
}

// Problems returns what contradicts the promise, where final are the committed records of the
// partition's log and stored is the group's offset at the end:
//
//	went back  an offset below one whose commit was acknowledged before
//	skipped    an offset above all that was sent
//	fenced     a commit of an earlier generation after one of a later generation
//	missed     a record below the last offset that no member consumed
func (g *Group) Problems(final []Record, stored int64) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	problems := append([]string(nil), g.problems...)
	if bad := g.wrong(stored, g.acked); bad != "" {
		problems = append(problems, bad+" in the end")
	}
	for _, r := range final {
		if r.Offset < stored && !g.consumed[r.Offset] && !g.recordsLost {
			problems = append(problems, fmt.Sprintf("missed: the record at offset %d, below the last offset %d", r.Offset, stored))
		}
	}
	return problems
}
