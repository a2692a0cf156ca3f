package check

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Transactions is what transactional producers did, and what readers of committed records saw. Its
// methods may be called concurrently.
type Transactions struct {
	mu       sync.Mutex
	all      []*Transaction
	byValue  map[string]position
	read     map[string]map[int64]string // what was read first at each offset of each partition
	problems []string
	// lost are the partitions that lost records, and known is when all coordinators know that.
	lost  map[string]bool
	known time.Time
}

// Transaction is one transaction of a producer. A test calls its methods in the order of what the
// producer does, and not concurrently.
type Transaction struct {
	of *Transactions
	// id is the transactional id, number counts the transactions of it.
	id     string
	number int64
	// values are the records by partition, in the order of their acknowledgements.
	values  map[string][]string
	lost    map[string]bool // values whose produce request had no answer, or was refused
	offset  bool            // it commits its number as the offset of its group
	outcome result
	// excused: a partition lost records when it had ended, or could have without a coordinator that
	// knew of the loss.
	excused bool
}

// position is where a value was written.
type position struct {
	t         *Transaction
	partition string
}

type result uint8

const (
	open      result = iota // its producer never asked for a commit: readers must never see it
	asked                   // a commit has no answer: readers see all of it or nothing
	committed               // readers must see all of it
	aborted                 // an abort was acknowledged
)

// NewTransactions returns an empty history.
func NewTransactions() *Transactions {
	return &Transactions{byValue: map[string]position{}, read: map[string]map[int64]string{}, lost: map[string]bool{}}
}

// Begin begins a transaction of a transactional id. The numbers of an id grow.
func (x *Transactions) Begin(id string, number int64) *Transaction {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := &Transaction{of: x, id: id, number: number, values: map[string][]string{}, lost: map[string]bool{}}
	x.all = append(x.all, t)
	return t
}

// Attempted notes that a producer is about to send a value.
func (t *Transaction) Attempted(partition, value string) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.byValue[value], t.lost[value] = position{t, partition}, true
}

// Wrote notes that a value was acknowledged.
func (t *Transaction) Wrote(partition, value string) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	delete(t.lost, value)
	t.values[partition] = append(t.values[partition], value)
}

// CommitsOffset notes that the transaction's number is committed as its group's offset with it.
func (t *Transaction) CommitsOffset() { t.set(func() { t.offset = true }) }

// Committing notes that the producer is about to ask for a commit.
func (t *Transaction) Committing() {
	t.set(func() { t.outcome, t.excused = asked, !time.Now().After(t.of.known) })
}

// Lose notes that a partition has just lost committed records, which all coordinators know after
// lag. A transaction that asks for its commit later must not be committed without its records.
// Others may have been, and the records of one whose marker was lost may join a later one.
func (x *Transactions) Lose(partition string, lag time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost[partition] = true
	x.known = time.Now().Add(lag)
	for _, t := range x.all {
		t.excused = true
	}
}

// Committed notes that the commit was acknowledged.
func (t *Transaction) Committed() { t.set(func() { t.outcome = committed }) }

// MayShow reports whether readers may see its records.
func (t *Transaction) MayShow() (ok bool) {
	t.set(func() { ok = t.outcome == asked || t.outcome == committed })
	return ok
}

// Refused notes that the only request for a commit was refused.
func (t *Transaction) Refused() { t.set(func() { t.outcome = open }) }

// Aborted notes that an abort was acknowledged. No commit was asked for, or all were refused.
func (t *Transaction) Aborted() { t.set(func() { t.outcome = aborted }) }

func (t *Transaction) set(f func()) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	f()
}

// Read notes what a reader of committed records saw.
func (x *Transactions) Read(partition string, offset int64, value string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.read[partition]
	if at == nil {
		at = map[int64]string{}
		x.read[partition] = at
	}
	if was, ok := at[offset]; ok && was != value && !x.lost[partition] {
		x.problem("%s at offset %d: read %q and then %q", partition, offset, was, value)
	}
	at[offset] = value
	p, known := x.byValue[value]
	switch {
	case !known:
		x.problem("%s at offset %d: %q was never written", partition, offset, value)
	case p.t.excused:
	case p.t.outcome == aborted:
		x.problem("%s at offset %d: %q is of an aborted transaction", partition, offset, value)
	case p.t.outcome == open:
		x.problem("%s at offset %d: %q is of a transaction that was never committed", partition, offset, value)
	}
}

// problem notes a problem. Caller holds mu.
func (x *Transactions) problem(format string, args ...any) {
	x.problems = append(x.problems, fmt.Sprintf(format, args...))
}

// Count returns how many transactions were committed, were aborted, or have no known outcome.
func (x *Transactions) Count() (committedOnes, abortedOnes, unknown int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range x.all {
		switch t.outcome {
		case committed:
			committedOnes++
		case aborted:
			abortedOnes++
		default:
			unknown++
		}
	}
	return committedOnes, abortedOnes, unknown
}

// Problems judges the history. final has the committed records of each partition in the end, and
// offsets those of the groups by transactional id, 0 for none.
func (x *Transactions) Problems(final map[string][]Record, offsets map[string]int64) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	problems := slices.Clone(x.problems)
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	shown := map[*Transaction]map[string][]string{}
	for partition, records := range final {
		x.judgePartition(partition, records, shown, add)
	}
	last := map[string]int64{} // the newest visible transaction of an id that commits an offset
	for _, t := range x.all {
		seen := shown[t]
		if t.whole(seen) == visible && t.offset && !t.excused {
			last[t.id] = max(last[t.id], t.number)
		}
		t.judge(seen, add)
	}
	for _, id := range slices.Sorted(maps.Keys(offsets)) {
		x.judgeOffset(id, offsets[id], last[id], add)
	}
	return problems
}

// judgePartition compares what is committed in the end with what readers saw, and collects the
// visible values of each transaction.
func (x *Transactions) judgePartition(partition string, records []Record, shown map[*Transaction]map[string][]string,
	add func(string, ...any)) {
	at, once := map[int64]string{}, map[string]int64{}
	for _, r := range records {
		at[r.Offset] = r.Value
		if first, twice := once[r.Value]; twice {
			add("%s: %q is at offset %d and at %d", partition, r.Value, first, r.Offset)
			continue
		}
		once[r.Value] = r.Offset
		p, known := x.byValue[r.Value]
		if !known || p.partition != partition {
			add("%s: %q at offset %d was never written to it", partition, r.Value, r.Offset)
			continue
		}
		if shown[p.t] == nil {
			shown[p.t] = map[string][]string{}
		}
		shown[p.t][partition] = append(shown[p.t][partition], r.Value)
	}
	for offset, value := range x.read[partition] {
		if at[offset] != value && !x.lost[partition] {
			add("%s at offset %d: a reader saw %q, in the end it is %q", partition, offset, value, at[offset])
		}
	}
}

// sight is how much of a transaction is visible.
type sight uint8

const (
	nothing sight = iota // or it wrote nothing that was acknowledged
	visible
	torn
)

// whole reports how much of a transaction is visible.
func (t *Transaction) whole(seen map[string][]string) sight {
	missing, there := false, false
	for partition, values := range t.values {
		for _, v := range values {
			if slices.Contains(seen[partition], v) {
				there = true
			} else {
				missing = true
			}
		}
	}
	switch {
	case there && missing:
		return torn
	case there:
		return visible
	}
	return nothing
}

// judge judges the visible values of one transaction.
func (t *Transaction) judge(seen map[string][]string, add func(string, ...any)) {
	any := len(seen) > 0
	switch how := t.whole(seen); {
	case t.excused:
		return
	case t.outcome == committed && how != visible && len(t.values) > 0:
		add("transaction %d of %s was committed, and its records are not all there: %v of %v", t.number, t.id, seen, t.values)
	case t.outcome == asked && how == torn:
		add("transaction %d of %s is torn: %v of %v", t.number, t.id, seen, t.values)
	case t.outcome == open && any:
		add("transaction %d of %s was never committed, and %v are visible", t.number, t.id, seen)
	case t.outcome == aborted && any:
		add("transaction %d of %s was aborted, and %v are visible", t.number, t.id, seen)
	}
	for partition, values := range seen {
		t.judgeOrder(partition, values, add)
	}
}

// judgeOrder requires that acknowledged values are in the order of their acknowledgements. Those
// without an answer may be among them.
func (t *Transaction) judgeOrder(partition string, seen []string, add func(string, ...any)) {
	known := slices.DeleteFunc(slices.Clone(seen), func(v string) bool { return t.lost[v] })
	if len(known) == len(t.values[partition]) && !slices.Equal(known, t.values[partition]) {
		add("%s: transaction %d of %s wrote %v, in the log is %v", partition, t.number, t.id, t.values[partition], known)
	}
}

// judgeOffset judges the offset of a group in the end.
func (x *Transactions) judgeOffset(id string, offset, last int64, add func(string, ...any)) {
	if offset < last {
		add("group of %s: offset %d, although transaction %d that commits its number is visible", id, offset, last)
		return
	}
	for _, t := range x.all {
		if t.id == id && t.number == offset && offset > 0 {
			if t.excused {
				return
			}
			if !t.offset || t.outcome == open || t.outcome == aborted || offset > last && len(t.values) > 0 {
				add("group of %s: offset %d is of a transaction that is not visible", id, offset)
			}
			return
		}
	}
	if offset != 0 {
		add("group of %s: offset %d was never committed", id, offset)
	}
}
