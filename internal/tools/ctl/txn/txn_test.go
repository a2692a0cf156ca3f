package txn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// opens lets a producer have a transaction open in partition 0.
func (f *fake) opens(pid, first int64, age time.Duration) {
	f.open[0] = append(f.open[0], kmsg.DescribeProducersResponseTopicPartitionActiveProducer{ProducerID: pid, ProducerEpoch: 3,
		LastTimestamp: time.Now().Add(-age).UnixMilli(), CoordinatorEpoch: 7, CurrentTxnStartOffset: first})
}

// knows lets the coordinator know a transactional id, whose transaction has the given partitions.
func (f *fake) knows(id, state string, pid int64, partitions ...int32) {
	t := kmsg.DescribeTransactionsResponseTransactionState{State: state, TimeoutMillis: 60_000, ProducerID: pid, ProducerEpoch: 3,
		StartTimestamp: time.Now().Add(-90 * time.Second).UnixMilli()}
	if len(partitions) > 0 {
		t.Topics = []kmsg.DescribeTransactionsResponseTransactionStateTopic{{Topic: fakeTopic, Partitions: partitions}}
	}
	f.ids[id] = t
}

// A transaction hangs if it is older than its timeout and a minute, and no coordinator ends it in
// this partition.
func TestWhichTransactionsHang(t *testing.T) {
	for name, c := range map[string]struct {
		age        time.Duration
		state      string // of its id; empty: no coordinator knows it
		partitions []int32
		flags      []string
		why        string // empty: it does not hang
	}{
		"unknown, old":                {age: 17 * time.Minute, why: "no coordinator knows its producer id"},
		"unknown, within max timeout": {age: 15*time.Minute + 30*time.Second},
		"unknown, by max-age":         {age: 10 * time.Second, flags: []string{"--max-age", "5s"}, why: "no coordinator knows"},
		"ended, old":                  {age: 3 * time.Minute, state: "CompleteCommit", why: "has no open transaction"},
		"never used":                  {age: 3 * time.Minute, state: "Empty", why: "has no open transaction"},
		"ended, within the grace":     {age: 110 * time.Second, state: "CompleteAbort"},
		"open elsewhere":              {age: 3 * time.Minute, state: ongoing, partitions: []int32{1}, why: "without this partition"},
		"open here, however old":      {age: 3 * time.Hour, state: ongoing, partitions: []int32{0, 1}},
		"its markers are on the way":  {age: 3 * time.Hour, state: prepareCommit, partitions: []int32{0}},
		"its abort markers too":       {age: 3 * time.Hour, state: prepareAbort},
		"not led by the broker":       {age: 3 * time.Hour, flags: []string{"--broker", "2"}},
		"in another partition":        {age: 3 * time.Hour, flags: []string{"--topic", fakeTopic, "--partition", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.opens(42, 10, c.age)
			if c.state != "" {
				f.knows("billing", c.state, 42, c.partitions...)
			}
			out, code, err := f.run(t, append([]string{"find-hanging"}, c.flags...)...)
			if c.why == "" {
				if err != nil || !strings.Contains(out, "no hanging transactions") {
					t.Fatalf("%v\n%s", err, out)
				}
				return
			}
			command := "chronikctl txn abort --topic orders --partition 0 --start-offset 10"
			if code != 4 || !strings.Contains(out, c.why) || !strings.Contains(out, command) || !strings.Contains(out, " 20 ") {
				t.Errorf("exit code %d, want %q, 20 held offsets, and the command\n%s", code, c.why, out)
			}
		})
	}
}

// What ends between the questions does not hang, and without all coordinators nothing is known.
func TestOnlyWhatIsKnownHangs(t *testing.T) {
	f := newFake(t)
	f.opens(42, 10, time.Hour)
	f.described = func(times int) {
		if times == 2 {
			f.open[0][0].CurrentTxnStartOffset = 25 // the next one of the same producer
		}
	}
	if out, _, err := f.run(t, "find-hanging"); err != nil {
		t.Errorf("a transaction that ended meanwhile: %v\n%s", err, out)
	}
	f = newFake(t)
	f.opens(42, 10, time.Hour)
	f.stateOff = true
	out, code, err := f.run(t, "find-hanging")
	if code != 1 || !strings.Contains(err.Error(), "__transaction_state partition 0 has no leader") {
		t.Errorf("without a coordinator: %d %v\n%s", code, err, out)
	}
	if _, code, err := f.run(t, "abort", "--topic", fakeTopic, "-p", "0", "--start-offset", "10", "--yes"); code != 1 || len(f.marked) > 0 {
		t.Errorf("abort without a coordinator: %d %v, markers %v", code, err, f.marked)
	}
}

func TestAbortInAPartition(t *testing.T) {
	line := []string{"abort", "--topic", fakeTopic, "--partition", "0", "--start-offset", "10"}
	f := newFake(t)
	f.opens(42, 10, time.Hour)
	f.knows("billing", "CompleteCommit", 42)
	if out, _, err := f.run(t, append(line, "--dry-run")...); err != nil || !strings.Contains(out, "would be aborted") ||
		len(f.marked) > 0 {
		t.Errorf("dry run: %v, markers %v\n%s", err, f.marked, out)
	}
	if _, code, err := f.run(t, line...); code != 5 || len(f.marked) > 0 {
		t.Errorf("not confirmed: %d %v, markers %v", code, err, f.marked)
	}
	out, _, err := f.run(t, append(line, "--yes")...)
	if err != nil || !strings.Contains(out, "was aborted") || len(f.marked) != 1 {
		t.Fatalf("%v, markers %v\n%s", err, f.marked, out)
	}
	if m := f.marked[0]; m.ProducerID != 42 || m.ProducerEpoch != 3 || m.CoordinatorEpoch != 7 || m.Committed ||
		fmt.Sprint(m.Topics[0].Partitions) != "[0]" {
		t.Errorf("marker %+v", m)
	}
	line[len(line)-1] = "11"
	if _, _, err := f.run(t, append(line, "--yes")...); err == nil || !strings.Contains(err.Error(), "begin at 10") || len(f.marked) != 1 {
		t.Errorf("an offset without a transaction: %v, markers %v", err, f.marked)
	}
}

// An abort in one partition of a transaction that its coordinator has would tear it.
func TestAbortOfAKnownTransactionIsRefused(t *testing.T) {
	for state, remedy := range map[string]string{ongoing: "`chronikctl txn abort billing` aborts it", prepareCommit: "writes the marker"} {
		f := newFake(t)
		f.opens(42, 10, time.Hour)
		f.knows("billing", state, 42, 0)
		_, code, err := f.run(t, "abort", "--topic", fakeTopic, "--partition", "0", "--start-offset", "10", "--yes")
		if code != 1 || !strings.Contains(err.Error(), remedy) || len(f.marked) > 0 {
			t.Errorf("%s: %d %v, markers %v", state, code, err, f.marked)
		}
	}
}

// A coordinator that comes back while the operator decides, or that moves while the others are
// asked, may have the transaction.
func TestAbortInAPartitionAsksAgain(t *testing.T) {
	line := []string{"abort", "--topic", fakeTopic, "--partition", "0", "--start-offset", "10", "--yes"}
	f := newFake(t)
	f.opens(42, 10, time.Hour)
	f.described = func(times int) {
		if times == 2 {
			f.knows("billing", ongoing, 42, 0)
		}
	}
	if _, code, err := f.run(t, line...); code != 1 || !strings.Contains(err.Error(), "billing has it (Ongoing)") || len(f.marked) > 0 {
		t.Errorf("known after the confirmation: %d %v, markers %v", code, err, f.marked)
	}
	f = newFake(t)
	f.opens(42, 10, time.Hour)
	f.moves = true
	for _, line := range [][]string{line, {"find-hanging"}} {
		if _, code, err := f.run(t, line...); code != 1 || !strings.Contains(err.Error(), "got other leaders") || len(f.marked) > 0 {
			t.Errorf("%s while a coordinator moves: %d %v, markers %v", line[0], code, err, f.marked)
		}
	}
}

func TestAbortFencesTheProducer(t *testing.T) {
	f := newFake(t)
	f.knows("billing", ongoing, 42, 0, 1)
	f.knows("idle", "Empty", 43)
	f.knows("decided", prepareCommit, 44, 0)
	f.busy = 2
	f.limit = 100 // it was lowered while the transaction was open
	if out, _, err := f.run(t, "abort", "billing", "--dry-run"); err != nil || len(f.begun) > 0 || !strings.Contains(out, "in orders:0,1") {
		t.Errorf("dry run: %v, %v\n%s", err, f.begun, out)
	}
	out, code, err := f.run(t, "abort", "billing", "idle", "decided", "missing", "--yes")
	if code != 1 || fmt.Sprint(f.begun) != "map[billing:1 idle:1]" {
		t.Errorf("exit code %d, fenced %v", code, f.begun)
	}
	for _, want := range []string{"billing was aborted: the transaction of producer 42", "idle was fenced: no transaction is open"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, want := range []string{"decided: its outcome is decided (PrepareCommit)", "missing: TRANSACTIONAL_ID_NOT_FOUND"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestListFilters(t *testing.T) {
	f := newFake(t)
	f.knows("billing-1", ongoing, 1, 0, 1)
	f.knows("billing-2", "Empty", 2)
	f.knows("rebilling-1", prepareAbort, 3)
	for flags, want := range map[string]string{
		"":                           "billing-1 billing-2 rebilling-1",
		"--state ongoing":            "billing-1",
		"--producer-id 2,3":          "billing-2 rebilling-1",
		"--longer-than 80s":          "billing-1 rebilling-1",
		"--longer-than 2m":           "",
		"--id billing-.":             "billing-1 billing-2",
		"--state Empty --id .*-1":    "",
		"--state Empty,PrepareAbort": "billing-2 rebilling-1",
	} {
		out, _, err := f.run(t, append([]string{"list"}, strings.Fields(flags)...)...)
		var got []string
		for _, line := range strings.Split(out, "\n") {
			if id, _, ok := strings.Cut(line, " "); ok && strings.Contains(id, "billing") {
				got = append(got, id)
			}
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %s", flags, got, err, want)
		}
	}
}

// A decided transaction is still open where its marker is missing.
func TestDescribeShowsMissingMarkers(t *testing.T) {
	f := newFake(t)
	f.knows("billing", prepareCommit, 42, 0, 1)
	f.opens(42, 10, time.Minute)
	out, _, err := f.run(t, "describe", "billing")
	must.OK(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{"orders 0 10 10 30 missing", "orders 1 - 10 30 written"} {
		if got := strings.Join(strings.Fields(lines[i+2]), " "); got != want {
			t.Errorf("%q, want %q\n%s", got, want, out)
		}
	}
	if !strings.Contains(lines[0], "PrepareCommit") || !strings.Contains(lines[0], "age 1m30s") {
		t.Error(lines[0])
	}
}

func TestCommandLines(t *testing.T) {
	f := newFake(t)
	for line, want := range map[string]string{
		"abort":                            "give transactional ids",
		"abort x --topic t":                "exclude each other",
		"abort --topic t --start-offset 3": "belong together",
		"list --state Open":                "is none of",
		"list --id (":                      "--id",
		"list --longer-than -3s":           "at least 0s",
		"find-hanging --partition 3":       "needs --topic",
		"find-hanging --max-age -1s":       "at least 0s",
		"find-hanging --topic orders -p 7": "partitions 0 to 1",
		"find-hanging --topic none":        "UNKNOWN_TOPIC_OR_PARTITION",
	} {
		_, code, err := f.run(t, strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), want) || !slices.Contains([]int{1, 2}, code) {
			t.Errorf("%s: %d %v, want %s", line, code, err, want)
		}
	}
}

func TestTheTimestampOfTheFirstRecord(t *testing.T) {
	b := kmsg.RecordBatch{FirstOffset: 10, Length: 49, Magic: 2, FirstTimestamp: 1234, NumRecords: 1}
	raw := b.AppendTo(nil)
	if at, ok := firstTimestamp(raw, 10); !ok || at.UnixMilli() != 1234 {
		t.Errorf("%v, %v", at, ok)
	}
	for name, bad := range map[string][]byte{"nothing": nil, "a cut batch": raw[:60]} {
		if _, ok := firstTimestamp(bad, 10); ok {
			t.Errorf("%s has a timestamp", name)
		}
	}
	if _, ok := firstTimestamp(raw, 11); ok {
		t.Error("a batch that begins before the transaction has its timestamp")
	}
}

func TestHeldOffsets(t *testing.T) {
	v := view{stable: 10, end: 30, open: []kadm.DescribedProducer{{CurrentTxnStartOffset: 10}, {CurrentTxnStartOffset: 20}}}
	if n, holds := v.held(10); !holds || n != 20 {
		t.Errorf("%d, %v", n, holds)
	}
	if _, holds := v.held(20); holds {
		t.Error("the second open transaction holds the last stable offset")
	}
	v.stable = 15 // the log start, where a DeleteRecords has put it
	if n, holds := v.held(10); !holds || n != 15 {
		t.Errorf("with deleted records: %d, %v", n, holds)
	}
	v.stable = -1
	if _, holds := v.held(10); holds {
		t.Error("a transaction holds an unknown offset")
	}
}

// The finding has the command that ends the transaction.
func TestAHangingTransactionIsFound(t *testing.T) {
	f := newFake(t)
	f.opens(42, 10, time.Hour)
	f.knows("billing", "Empty", 42)
	a, done := f.app(t)
	defer done()
	d, err := Diagnose(t.Context(), a.App, a.adm, a.cl)
	if err != nil || len(d.Findings) != 1 || d.Examined != "1 open transaction" {
		t.Fatalf("%+v, %v", d, err)
	}
	x := d.Findings[0]
	if x.Subject != "partition orders-0" || !strings.Contains(x.Problem, "transactional id billing) hangs there, open since offset 10") ||
		x.Remedy != "`chronikctl txn abort --topic orders --partition 0 --start-offset 10` aborts it" {
		t.Errorf("%+v", x)
	}
}
