package broker

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/tools/ctl"
)

// chronikctl runs a command against the node and returns its exit code.
func (n *node) chronikctl(t testing.TB, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = ctl.Main(t.Context(), append([]string{"--brokers", n.addr}, args...), "test",
		ctl.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }})
	return code, stdout.String(), stderr.String()
}

// coordinatesTransactions waits until transactional ids have a coordinator.
func (n *node) coordinatesTransactions(t testing.TB) {
	t.Helper()
	w := n.dial(t)
	eventually(t, "transactions have a coordinator", func() bool {
		for _, id := range []string{"a", "b"} {
			if ask[*kmsg.InitProducerIDResponse](t, w, 5, producerIDRequest(&id, -1, -1)).ErrorCode != 0 {
				return false
			}
		}
		list := kmsg.NewPtrListTransactionsRequest()
		return ask[*kmsg.ListTransactionsResponse](t, w, 0, list).ErrorCode == 0
	})
}

// A transaction is open in a partition, and its coordinator, which is healthy, does not know it: as
// after a restore of one of the two from an older copy. The operator's tools find it, say how to
// end it, and end it. A transaction that is as old and that the coordinator knows is left alone.
func TestAHangingTransactionIsFoundAndEnded(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 2)
	n.coordinatesTransactions(t)
	w := n.dial(t)
	old := time.Now().Add(-time.Hour).UnixMilli()
	open := func(id string, producer int64, epoch int16, partition int32) {
		t.Helper()
		batch := batchOf(t, record.BatchOptions{Transactional: true, Producer: &record.Producer{ID: producer, Epoch: epoch}}, old, "a")
		req := txnRequest(&id, batch)
		req.Topics[0].Partitions[0].Partition = partition
		if p := produced(t, w, 12, req); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	known := "known"
	p := ask[*kmsg.InitProducerIDResponse](t, w, 5, producerIDRequest(&known, -1, -1))
	// The gate asks the coordinator for this one, as it does in a broker.
	n.coordinators.set(func(q gate.Question, done func(gate.Answer)) { n.opt.Exchange.Ask(q, done) })
	open(known, p.ProducerID, p.ProducerEpoch, 1)
	n.coordinators.set(nil) // and permits this one without a coordinator
	open("gone", 7_000, 3, 0)
	if got := produced(t, w, 12, produceRequest("t", [16]byte{}, -1, plain(t, "plain"))); got.ErrorCode != 0 {
		t.Fatal(got)
	}
	stable := func(partition int32) int64 {
		t.Helper()
		at, err := n.opt.Replicas.Partition(n.image().Topic("t").ID, partition)
		must(t, err)
		return at.Ends().LastStable
	}
	if at := stable(0); at != 0 {
		t.Fatalf("readers of committed records get up to %d", at)
	}

	code, out, errs := n.chronikctl(t, "txn", "find-hanging", "-o", "json")
	var found []struct {
		Topic       string
		Partition   int32
		FirstOffset int64
		ProducerID  int64
		Abort       string
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != 4 || len(found) != 1 || found[0].Topic != "t" ||
		found[0].Partition != 0 || found[0].FirstOffset != 0 || found[0].ProducerID != 7_000 {
		t.Fatalf("exit code %d, %v: %+v\n%s%s", code, err, found, out, errs)
	}
	words := strings.Fields(found[0].Abort)
	code, out, errs = n.chronikctl(t, append(words[1:], "--yes")...)
	if code != 0 {
		t.Fatalf("%s: exit code %d\n%s%s", found[0].Abort, code, out, errs)
	}
	if at := stable(0); at != 3 {
		t.Errorf("after the abort readers of committed records get up to %d", at)
	}
	if code, out, errs = n.chronikctl(t, "txn", "find-hanging"); code != 0 {
		t.Errorf("afterwards: exit code %d\n%s%s", code, out, errs)
	}
	code, out, errs = n.chronikctl(t, "txn", "abort", "--topic", "t", "--partition", "1", "--start-offset", "0", "--yes")
	if code == 0 || stable(1) != 0 {
		t.Errorf("the transaction of a coordinator was torn: exit code %d\n%s%s", code, out, errs)
	}
}
