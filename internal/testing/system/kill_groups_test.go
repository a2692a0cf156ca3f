package system

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

const (
	groupKills   = 3
	groupRecords = 200 // between two kills
	groupParts   = 3
)

// The real binary is killed under a group that reads and commits. After each start the committed
// offsets are there, the group continues from them, and no record is missed. Only records without a
// commit are read again.
func TestKillKeepsGroupsAndTheirOffsets(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{"classic": nil, "consumer": {kgo.ServerSideBalancer()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, err := ports.Loopback()
			must.OK(t, err)
			dir := t.TempDir()
			broker := startForGroups(t, dir, addr)
			topic := groupTopic(t, addr)
			seen, committed := map[string]bool{}, map[int32]int64{}
			cl := groupMember(t, addr, topic, opts...)
			for n := range groupKills {
				fillTopic(t, addr, topic, n)
				for readSome(t, cl, seen) < (n+1)*groupRecords {
					commitAll(t, cl, topic, committed)
				}
				kill(t, broker)
				broker = startForGroups(t, dir, addr)
				checkCommitted(t, addr, topic, committed)
			}
			cl.Close()
			if err := broker.end(syscall.SIGTERM); err != nil {
				t.Errorf("SIGTERM: %v\n%s", err, broker.logged())
			}
		})
	}
}

func startForGroups(t *testing.T, dir, addr string) *process {
	t.Helper()
	p, err := start(dir, nil, "--listen", addr, "--admin-listen", "off", "--set", "group.initial.rebalance.delay.ms=0")
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	return p
}

func groupClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(outlives(addr, opts...)...)
	must.OK(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func groupTopic(t *testing.T, addr string) string {
	t.Helper()
	if _, err := kadm.NewClient(groupClient(t, addr)).CreateTopic(t.Context(), groupParts, 1, nil, "kill-group"); err != nil {
		t.Fatal(err)
	}
	return "kill-group"
}

func groupMember(t *testing.T, addr, topic string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return groupClient(t, addr, append([]kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
}

// fillTopic writes the records of the n-th round.
func fillTopic(t *testing.T, addr, topic string, n int) {
	t.Helper()
	var records []*kgo.Record
	for i := range groupRecords {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % groupParts), Value: fmt.Appendf(nil, "%d/%d", n, i)})
	}
	cl := groupClient(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	must.OK(t, cl.ProduceSync(t.Context(), records...).FirstErr())
}

// readSome reads the next records and returns how many different ones it has seen so far.
func readSome(t *testing.T, cl *kgo.Client, seen map[string]bool) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	f := cl.PollRecords(ctx, 20)
	if ctx.Err() != nil {
		t.Fatalf("stopped at %d records for %v", len(seen), startTime)
	}
	f.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
	return len(seen)
}

// commitAll commits the offsets that were read. An acknowledged commit must not be lost.
func commitAll(t *testing.T, cl *kgo.Client, topic string, committed map[int32]int64) {
	t.Helper()
	if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
		return // the group is rebalancing: the next commit includes everything
	}
	for p, o := range cl.CommittedOffsets()[topic] {
		committed[p] = max(committed[p], o.Offset)
	}
}

func checkCommitted(t *testing.T, addr, topic string, committed map[int32]int64) {
	t.Helper()
	if len(committed) == 0 {
		t.Error("no offset was committed")
	}
	adm := kadm.NewClient(groupClient(t, addr))
	offsets := committedBy(t, adm, "g")
	for p, want := range committed {
		if got, _ := offsets.Lookup(topic, p); got.At < want {
			t.Errorf("partition %d: %d was committed, but after the start it is %d", p, want, got.At)
		}
	}
}
