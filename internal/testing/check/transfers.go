package check

import (
	"fmt"
	"slices"
	"sync"
)

// Transfers is the history of transactions that move amounts between partitions: each writes one
// record or more per partition, and its amounts have the sum 0. Views judge what read_committed
// readers saw. Its methods may be called concurrently.
type Transfers struct {
	mu    sync.Mutex
	all   map[Transfer]*outcome
	at    map[Position]Piece // what any reader saw there
	wrong []string           // what no View finds
}

// Transfer names a transaction: the number-th of a producer, whose numbers increase.
type Transfer struct {
	Producer string
	Number   int
}

func (t Transfer) String() string { return fmt.Sprintf("%s/%d", t.Producer, t.Number) }

// Piece is one record of a transaction.
type Piece struct {
	Transfer
	// Index counts the records of the transaction from 0, in the order in which they were sent.
	Index  int
	Amount int64
}

func (p Piece) String() string { return fmt.Sprintf("{%v %d %d}", p.Transfer, p.Index, p.Amount) }

// Position is the position of a record.
type Position struct {
	Partition string
	Offset    int64
}

// outcome is what a producer knows about a transaction.
type outcome struct {
	amounts            []int64
	committed, aborted bool
}

// NewTransfers returns an empty history.
func NewTransfers() *Transfers {
	return &Transfers{all: map[Transfer]*outcome{}, at: map[Position]Piece{}}
}

// Begin notes that a transaction is about to begin, with the amounts of its records. Until its end
// is known, it may be shown or not, but whole.
func (h *Transfers) Begin(t Transfer, amounts ...int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[t] = &outcome{amounts: amounts}
	var sum int64
	for _, a := range amounts {
		sum += a
	}
	if sum != 0 || len(amounts) == 0 {
		h.wrong = append(h.wrong, fmt.Sprintf("bad test: transaction %v has the amounts %v", t, amounts))
	}
}

// Committed notes that a commit was acknowledged.
func (h *Transfers) Committed(t Transfer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.all[t]
	if o.aborted {
		h.wrong = append(h.wrong, fmt.Sprintf("zombie: the commit of %v was acknowledged after it was aborted", t))
	}
	o.committed = true
}

// Aborted notes that a transaction cannot be committed any more: its abort was acknowledged, or its
// client never asks for a commit.
func (h *Transfers) Aborted(t Transfer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[t].aborted = true
}

// Counts returns the numbers of transactions by what their producers know.
func (h *Transfers) Counts() (committed, aborted, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.all {
		switch {
		case o.aborted:
			aborted++
		case o.committed:
			committed++
		default:
			unknown++
		}
	}
	return committed, aborted, unknown
}

// Acknowledged returns the transactions whose commits were acknowledged.
func (h *Transfers) Acknowledged() map[Transfer]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := map[Transfer]bool{}
	for t, o := range h.all {
		if o.committed {
			known[t] = true
		}
	}
	return known
}

// View is what one read_committed reader saw, which reads each partition from its start and never
// twice. Its methods may be called concurrently.
type View struct {
	of    *Transfers
	mu    sync.Mutex
	seen  map[Transfer]map[int]Position
	half  map[Transfer]bool // those of which some records were seen, and not all
	last  map[string]Piece  // by partition and producer
	next  map[string]int64  // offset, by partition
	sum   int64
	wrong []string
}

// View returns the view of a reader that has read nothing yet.
func (h *Transfers) View() *View {
	return &View{of: h, seen: map[Transfer]map[int]Position{}, half: map[Transfer]bool{}, last: map[string]Piece{},
		next: map[string]int64{}}
}

// Read notes that the reader read a record.
func (v *View) Read(p Position, piece Piece) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	report := func(format string, args ...any) { v.wrong = append(v.wrong, fmt.Sprintf(format, args...)) }
	if before, ok := v.of.at[p]; ok && before != piece {
		report("changed: %v has %v and had %v", p, piece, before)
	}
	v.of.at[p] = piece
	if p.Offset < v.next[p.Partition] {
		report("order: %v was read after offset %d", p, v.next[p.Partition]-1)
	}
	v.next[p.Partition] = p.Offset + 1
	o := v.of.all[piece.Transfer]
	if o == nil || piece.Index >= len(o.amounts) || o.amounts[piece.Index] != piece.Amount {
		report("phantom: %v has %v, which was never sent", p, piece)
		return
	}
	v.sum += piece.Amount
	if other, twice := v.seen[piece.Transfer][piece.Index]; twice {
		report("doubled: %v is at %v and at %v", piece, other, p)
		return
	}
	by := p.Partition + " " + piece.Producer
	if before, ok := v.last[by]; ok && (before.Number > piece.Number || before.Number == piece.Number && before.Index > piece.Index) {
		report("order: %v has %v, after %v", p, piece, before)
	}
	v.last[by] = piece
	if v.seen[piece.Transfer] == nil {
		v.seen[piece.Transfer] = map[int]Position{}
	}
	v.seen[piece.Transfer][piece.Index] = p
	v.half[piece.Transfer] = len(v.seen[piece.Transfer]) < len(o.amounts)
	if !v.half[piece.Transfer] {
		delete(v.half, piece.Transfer)
	}
	if len(v.half) == 0 && v.sum != 0 {
		report("sum: it is %d when no transaction is half seen, at %v", v.sum, p)
	}
}

// Problems returns what contradicts the promise so far:
//
//	shown    a record of an aborted transaction
//	doubled  a record at two offsets
//	phantom  a record that no producer sent
//	order    a partition's offsets, or a producer's records in a partition, that decrease
//	changed  an offset at which two readers saw different records
//	sum      other than 0 when the reader had seen no transaction in part
//	zombie   a commit that was acknowledged after the abort
//
// If the reader has read everything, and no transaction is open, also:
//
//	torn     a transaction of which the reader saw some records, and not all
//	lost     an acknowledged commit of which it saw none
func (v *View) Problems(everything bool) []string {
	return v.problems(everything, func(_ Transfer, committed bool) bool { return committed })
}

// ProblemsOf is Problems of a reader that has read all of a former state: lost are those of the
// given transactions of which it saw nothing.
func (v *View) ProblemsOf(acknowledged map[Transfer]bool) []string {
	return v.problems(true, func(t Transfer, _ bool) bool { return acknowledged[t] })
}

// problems is Problems. due reports whether a transaction must be there.
func (v *View) problems(everything bool, due func(t Transfer, committed bool) bool) []string {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	problems := slices.Concat(v.of.wrong, v.wrong)
	for t, o := range v.of.all {
		seen := len(v.seen[t])
		switch {
		case o.aborted && seen > 0:
			problems = append(problems, fmt.Sprintf("shown: %d records of %v, which was aborted, at %v", seen, t, v.seen[t]))
		case everything && seen > 0 && seen < len(o.amounts):
			problems = append(problems, fmt.Sprintf("torn: %d of %d records of %v, at %v", seen, len(o.amounts), t, v.seen[t]))
		case everything && due(t, o.committed) && !o.aborted && seen == 0:
			problems = append(problems, fmt.Sprintf("lost: %v, whose commit was acknowledged", t))
		}
	}
	slices.Sort(problems)
	return problems
}

// Once compares the records that were written to a topic with those that transactions made of them:
// each acknowledged one must be there once, each other one at most once.
func Once(written map[string]bool, acknowledged, transformed []string) (problems []string) {
	copies := map[string]int{}
	for _, value := range transformed {
		copies[value]++
		if !written[value] {
			problems = append(problems, fmt.Sprintf("phantom: %q was never written", value))
		}
	}
	for value, n := range copies {
		if n > 1 {
			problems = append(problems, fmt.Sprintf("doubled: %q is there %d times", value, n))
		}
	}
	for _, value := range acknowledged {
		if copies[value] == 0 {
			problems = append(problems, fmt.Sprintf("lost: %q", value))
		}
	}
	slices.Sort(problems)
	return problems
}
