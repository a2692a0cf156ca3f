package records

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A line is everything between line feeds, byte for byte.
func TestLinesAreKeptByteForByte(t *testing.T) {
	for in, want := range map[string][]string{
		"": nil, "a": {"a"}, "a\n": {"a"}, "a\nb": {"a", "b"}, "\n\n": {"", ""}, "a\r\nb\r\n": {"a\r", "b\r"}, "\x00\xff\n": {"\x00\xff"},
	} {
		s := bufio.NewScanner(strings.NewReader(in))
		s.Split(wholeLines)
		var got []string
		for s.Scan() {
			got = append(got, s.Text())
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestLinesBecomeRecords(t *testing.T) {
	for _, c := range []struct {
		o          produceOptions
		line       string
		key, value string // %q; nil for null
	}{
		{produceOptions{input: "lines"}, "a:b", "nil", `"a:b"`},
		{produceOptions{input: "lines"}, "", "nil", `""`},
		{produceOptions{input: "lines", emptyNull: true}, "", "nil", "nil"},
		{produceOptions{input: "lines", separator: ":"}, "a:b:c", `"a"`, `"b:c"`},
		{produceOptions{input: "lines", separator: ":", emptyNull: true}, "a:", `"a"`, "nil"},
		{produceOptions{input: "lines", tombstone: true}, "a:b", `"a:b"`, "nil"},
		{produceOptions{input: "json"}, `{"key":null,"value":"v"}`, "nil", `"v"`},
	} {
		r, err := c.o.record([]byte(c.line))
		must.OK(t, err)
		if k, v := quoted(r.Key), quoted(r.Value); k != c.key || v != c.value {
			t.Errorf("%q: key %s, value %s", c.line, k, v)
		}
	}
	o := produceOptions{input: "lines", separator: ":"}
	if _, err := o.record([]byte("none")); err == nil {
		t.Error("record accepts a line without a separator")
	}
}

// The last error of a partition is kept until the broker answers without an error.
func TestVerdictsAreOfThePartition(t *testing.T) {
	v := newLastErrors()
	v.Log(kgo.LogLevelDebug, "produced", "broker", "1", "to",
		"a[0{retrying@-1,1(KAFKA_STORAGE_ERROR: Disk error when trying to access log file on the disk.)}, 3{0=>1}]")
	if v.of(0) != kerr.KafkaStorageError || v.of(3) != nil || v.of(-1) != kerr.KafkaStorageError {
		t.Errorf("%v, %v, %v", v.of(0), v.of(3), v.of(-1))
	}
	v.Log(kgo.LogLevelDebug, "other", "to", "a[3{retrying@-1,1(KAFKA_STORAGE_ERROR: x)}]")
	v.Log(kgo.LogLevelDebug, "produced", "to", "a[0{4=>5}]")
	if v.of(0) != nil || v.of(3) != nil || v.of(-1) != nil {
		t.Errorf("%v, %v", v.of(0), v.of(3))
	}
}

func quoted(b []byte) string {
	if b == nil {
		return "nil"
	}
	return fmt.Sprintf("%q", b)
}

// stallTimer does not call back while answers arrive, however old the waiting records are.
func TestAStallIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stallTimer
		begin, fired := time.Now(), time.Duration(0)
		s.begin(30*time.Second, func() { fired = time.Since(begin) })
		time.Sleep(time.Minute) // nothing in flight
		s.sent()
		s.sent()
		time.Sleep(20 * time.Second)
		s.answered()
		time.Sleep(20 * time.Second)
		s.answered()
		time.Sleep(time.Minute)
		synctest.Wait()
		if fired != 0 {
			t.Fatalf("fired after %v, though all was answered in time", fired)
		}
		s.sent()
		time.Sleep(time.Minute)
		synctest.Wait()
		if fired != 190*time.Second {
			t.Errorf("fired after %v, want 30 s after the record that nobody answered", fired)
		}
	})
}

func TestARecordKeepsItsPartition(t *testing.T) {
	o := produceOptions{input: "json", partition: -1, samePartition: true}
	r, err := o.record([]byte(`{"partition":7,"value":"v"}`))
	if err != nil || r.Partition != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := o.record([]byte(`{"value":"v"}`)); err == nil {
		t.Error("record accepts a record without a partition with --same-partition")
	}
}

// A commit whose answer was lost is repeated. If another producer came meanwhile, the repetition is
// fenced, although the transaction may be committed: only errors that say so mean that it is not.
func TestAFencedCommitMayHaveSucceeded(t *testing.T) {
	x := transaction{id: "import", first: 3, last: 5}
	for err, want := range map[*kerr.Error]string{
		kerr.ProducerFenced:       "it is not known whether lines 3 to 5 are committed: ",
		kerr.InvalidProducerEpoch: "it is not known whether lines 3 to 5 are committed: ",
		kerr.InvalidTxnState:      "lines 3 to 5 are not committed: ",
		kerr.TransactionAbortable: "lines 3 to 5 are not committed: ",
	} {
		if got := x.unfinished(err); !strings.HasPrefix(got.Error(), want) || !strings.Contains(got.Error(), err.Message) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
