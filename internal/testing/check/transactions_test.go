package check

import (
	"strings"
	"testing"
)

// txnHistory is two transactions of an id over two partitions: the first one is committed.
func txnHistory() (*Transactions, *Transaction, *Transaction) {
	x := NewTransactions()
	write := func(t *Transaction, prefix string) {
		for _, p := range []string{"a", "b"} {
			for _, n := range []string{"1", "2"} {
				t.Attempted(p, prefix+p+n)
				t.Wrote(p, prefix+p+n)
			}
		}
		t.CommitsOffset()
	}
	one, two := x.Begin("id", 1), x.Begin("id", 2)
	write(one, "one-")
	write(two, "two-")
	one.Committing()
	one.Committed()
	return x, one, two
}

func recordsOf(values ...string) (list []Record) {
	for i, v := range values {
		list = append(list, Record{Offset: int64(i), Value: v})
	}
	return list
}

func TestTransactionsJudgesHistories(t *testing.T) {
	a, b := []string{"one-a1", "one-a2"}, []string{"one-b1", "one-b2"}
	for _, c := range []struct {
		name   string
		more   func(x *Transactions, two *Transaction)
		a, b   []string
		offset int64
		want   string // "": no problem
	}{
		{name: "whole", a: a, b: b, offset: 1},
		{name: "lost", a: a, offset: 1, want: "not all there"},
		{name: "lost in both", offset: 1, want: "not all there"},
		{name: "doubled", a: append(a[:2:2], "one-a1"), b: b, offset: 1, want: "at offset 0 and at 2"},
		{name: "order", a: []string{"one-a2", "one-a1"}, b: b, offset: 1, want: "in the log is"},
		{name: "open one shown", a: append(a[:2:2], "two-a1"), b: b, offset: 1, want: "was never committed, and"},
		{name: "aborted one shown", a: append(a[:2:2], "two-a1"), b: b, offset: 1, want: "was aborted, and",
			more: func(_ *Transactions, two *Transaction) { two.Aborted() }},
		{name: "unknown, nothing", a: a, b: b, offset: 1, more: func(_ *Transactions, two *Transaction) { two.Committing() }},
		{name: "unknown, whole", a: append(a[:2:2], "two-a1", "two-a2"), b: append(b[:2:2], "two-b1", "two-b2"), offset: 2,
			more: func(_ *Transactions, two *Transaction) { two.Committing() }},
		{name: "unknown, torn", a: append(a[:2:2], "two-a1", "two-a2"), b: b, offset: 1, want: "is torn",
			more: func(_ *Transactions, two *Transaction) { two.Committing() }},
		{name: "unknown, whole without its offset", a: append(a[:2:2], "two-a1", "two-a2"), b: append(b[:2:2], "two-b1", "two-b2"),
			offset: 1, want: "although transaction 2", more: func(_ *Transactions, two *Transaction) { two.Committing() }},
		{name: "offset without records", a: a, b: b, offset: 2, want: "not visible",
			more: func(_ *Transactions, two *Transaction) { two.Committing() }},
		{name: "offset of nothing", a: a, b: b, offset: 7, want: "never committed"},
		{name: "another partition's", a: append(a[:2:2], "one-b1"), b: b, offset: 1, want: "never written to it"},
		{name: "phantom", a: append(a[:2:2], "x"), b: b, offset: 1, want: "never written"},
		{name: "read and gone", a: a, b: b, offset: 1, want: "a reader saw",
			more: func(x *Transactions, _ *Transaction) { x.Read("a", 7, "one-a1") }},
		{name: "read twice", a: a, b: b, offset: 1, want: "and then",
			more: func(x *Transactions, _ *Transaction) { x.Read("a", 0, "one-a2"); x.Read("a", 0, "one-a1") }},
		{name: "open one read", a: a, b: b, offset: 1, want: "never committed",
			more: func(x *Transactions, _ *Transaction) { x.Read("a", 2, "two-a1") }},
		{name: "unanswered record inside", a: []string{"one-a1", "lost", "one-a2"}, b: b, offset: 1,
			more: func(x *Transactions, _ *Transaction) { x.all[0].Attempted("a", "lost") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, _, two := txnHistory()
			if c.more != nil {
				c.more(x, two)
			}
			read := map[string][]Record{"a": recordsOf(c.a...), "b": recordsOf(c.b...)}
			got := strings.Join(x.Problems(read, map[string]int64{"id": c.offset}), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
		})
	}
}
