package system

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
)

const (
	tortureTopic = "t"
	tortureAlone = "alone" // its records are acknowledged by the leader alone, and may be lost
	tortureGroup = "g"
	tortureRate  = 2 * time.Millisecond // between two records of a producer, twice as long among other tests
)

// logRecord is a record of a log.
type logRecord struct {
	offset int64
	value  string // producer, partition and number
}

// tortureBook has the answers that the clients received.
type tortureBook struct {
	mu        sync.Mutex
	acked     [torturePartitions]map[int64]string
	seen      [torturePartitions]map[int64]string
	ackedSent [torturePartitions]time.Time // when the latest acknowledged record was sent
	seenEnd   [torturePartitions]int64
	committed map[int32]int64
	count     int // of commits
	waits     [2]time.Duration
	wrong     []string
	refusals  map[int]int // records that a producer reported as failed; they may be in the log
	strict    bool        // none may be
	readers   []*[torturePartitions]int64
	judged    [torturePartitions]judged
}

// judged is the part of a partition that is judged: its records are not kept.
type judged struct {
	end   int64 // the offset that follows
	due   int64 // up to here, all consumers had read at the last call
	acked int   // records
	late  int   // records that were acknowledged after they were judged
	order order
}

// order judges the order of a log's records.
type order struct {
	last map[int]int // by producer
}

// next returns what is wrong with a record of the partition, if it follows those before.
func (o *order) next(b *tortureBook, p int32, value string) (wrong string) {
	var id, part, n int
	if _, err := fmt.Sscanf(value, "%d-%d-%d", &id, &part, &n); err != nil || part != int(p) {
		return "it belongs elsewhere"
	}
	if o.last == nil {
		o.last = map[int]int{}
	}
	before, ok := o.last[id]
	if ok && n != before+torturePartitions && (b.refusals[kindOf(id)] == 0 || n <= before) {
		wrong = fmt.Sprintf("producer %d: %d follows %d", id, n, before)
	}
	o.last[id] = n
	return wrong
}

// forget judges the records that all consumers had read at its last call, and forgets them, so that
// a run of hours takes a bounded memory. Each that was acknowledged must have been read, and in the
// order in which its producer sent it, once.
func (b *tortureBook) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range torturePartitions {
		s, due := &b.judged[p], b.readers[0][p]
		for _, r := range b.readers {
			due = min(due, r[p])
		}
		end := s.due
		s.due = max(due, s.due)
		for at := s.end; at < end; at++ {
			value, read := b.seen[p][at]
			acked, told := b.acked[p][at]
			switch {
			case told && acked != value:
				b.failed("partition %d: %q was acknowledged at %d, and consumers read %q there", p, acked, at, value)
			case read:
				if wrong := s.order.next(b, int32(p), value); wrong != "" {
					b.failed("partition %d, offset %d, %q: %s", p, at, value, wrong)
				}
			}
			if told {
				s.acked++
			}
			delete(b.acked[p], at)
			delete(b.seen[p], at)
		}
		s.end = max(s.end, end)
	}
}

// The producers: one with the settings that a client has by default, and others that give up an
// answer after tortureAnswer.
const (
	impatient = iota
	byDefault
)

// kindOf returns the kind of a producer.
func kindOf(id int) int {
	if id == 0 {
		return byDefault
	}
	return impatient
}

const tortureAnswer = time.Second

// connect makes a client of all brokers.
type connect func(...kgo.Opt) (*kgo.Client, error)

func newTortureBook() *tortureBook {
	b := &tortureBook{committed: map[int32]int64{}, refusals: map[int]int{}}
	for p := range torturePartitions {
		b.acked[p], b.seen[p] = map[int64]string{}, map[int64]string{}
	}
	return b
}

func (b *tortureBook) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed(format, args...)
}

func (b *tortureBook) failed(format string, args ...any) {
	b.wrong = append(b.wrong, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (b *tortureBook) report(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, text := range b.wrong {
		if i == 30 {
			t.Errorf("and %d more", len(b.wrong)-i)
			break
		}
		t.Error(text)
	}
	b.wrong = nil
}

// mayRefuse states whether the producer by default may report records as failed from now on.
func (b *tortureBook) mayRefuse(may bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.strict = !may
}

// longest returns the longest wait for an acknowledgement since the last call, of the impatient
// producers and of the one by default.
func (b *tortureBook) longest() [2]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	waits := b.waits
	b.waits = [2]time.Duration{}
	return waits
}

func (b *tortureBook) progress() (now time.Time, commits int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now(), b.count
}

// reached returns the partitions of which no record that was sent after a time was acknowledged, or
// was not read, and the number of commits.
func (b *tortureBook) reached(sent time.Time) (missing []int, commits int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range torturePartitions {
		if !b.ackedSent[p].After(sent) || b.seenEnd[p]+500 < int64(b.judged[p].acked+len(b.acked[p])) {
			missing = append(missing, p)
		}
	}
	return missing, b.count
}

// acknowledged returns the partitions of which no record that was sent after a time was
// acknowledged.
func (b *tortureBook) acknowledged(sent time.Time) (missing []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, at := range b.ackedSent {
		if !at.After(sent) {
			missing = append(missing, p)
		}
	}
	return missing
}

func (b *tortureBook) commits() map[int32]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := map[int32]int64{}
	for p, at := range b.committed {
		m[p] = at
	}
	return m
}

// produce writes numbered records to all partitions until ctx ends, and waits for their
// acknowledgements. Producer 0 is the one by default.
func (b *tortureBook) produce(ctx context.Context, t *testing.T, client connect, id int) {
	kind, opts := kindOf(id), []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}
	if kind == impatient {
		opts = append(opts, kgo.AlwaysRetryEOF(), kgo.MaxBufferedRecords(2000), kgo.ProducerLinger(0),
			kgo.MetadataMinAge(50*time.Millisecond),
			kgo.ProduceRequestTimeout(tortureAnswer/2), kgo.RequestTimeoutOverhead(tortureAnswer/2), kgo.DialTimeout(tortureAnswer/2))
	}
	cl, err := client(opts...)
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	rate := tortureRate
	if os.Getenv("CHRONIK_CLUSTER_ROUNDS") == "" {
		rate *= 2
	}
	tick := time.NewTicker(rate)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		p, sent := int32(n%torturePartitions), time.Now()
		r := &kgo.Record{Topic: tortureTopic, Partition: p, Value: fmt.Appendf(nil, "%d-%d-%d", id, p, n)}
		cl.Produce(context.Background(), r, func(r *kgo.Record, err error) { b.ack(r, err, sent, kind) })
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	end, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	if err := cl.Flush(end); err != nil {
		b.fail("producer %d: flush: %v", id, err)
	}
}

func (b *tortureBook) ack(r *kgo.Record, err error, sent time.Time, kind int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		// franz-go gives up the records of a connection that ends before its first answer, unless
		// it has AlwaysRetryEOF. A broker that dies ends connections at any time.
		var first *kgo.ErrFirstReadEOF
		if b.refusals[kind]++; b.strict || kind == impatient || !errors.As(err, &first) {
			b.failed("produce %s: %v", r.Value, err)
		}
		return
	}
	if before, twice := b.acked[r.Partition][r.Offset]; twice {
		b.failed("%s and %s were both acknowledged at %d of partition %d", before, r.Value, r.Offset, r.Partition)
	}
	if s := &b.judged[r.Partition]; r.Offset < s.end {
		s.late++
	} else {
		b.acked[r.Partition][r.Offset] = string(r.Value)
	}
	b.waits[kind] = max(b.waits[kind], time.Since(sent))
	if sent.After(b.ackedSent[r.Partition]) {
		b.ackedSent[r.Partition] = sent
	}
}

// consume reads all partitions, from the replicas of a rack (KIP-392), or from the leaders if it is
// empty.
func (b *tortureBook) consume(ctx context.Context, t *testing.T, client connect, near string) {
	cl, err := client(kgo.AlwaysRetryEOF(), kgo.ConsumeTopics(tortureTopic), kgo.Rack(near),
		kgo.RecheckPreferredReplicaInterval(time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	position := new([torturePartitions]int64)
	b.mu.Lock()
	b.readers = append(b.readers, position)
	b.mu.Unlock()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachError(func(topic string, p int32, err error) {
			var lost *kgo.ErrDataLoss
			if errors.As(err, &lost) {
				b.fail("consumer, partition %d: %v", p, err)
			}
		})
		b.read(fetches)
		b.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) { position[r.Partition] = r.Offset + 1 })
		b.mu.Unlock()
	}
}

func (b *tortureBook) read(fetches kgo.Fetches) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		if r.Offset < b.judged[r.Partition].end {
			return // a group reads it again
		}
		before, twice := b.seen[r.Partition][r.Offset]
		if twice && before != string(r.Value) {
			b.failed("a consumer saw %s and %s at %d of partition %d", before, r.Value, r.Offset, r.Partition)
		}
		b.seen[r.Partition][r.Offset] = string(r.Value)
		b.seenEnd[r.Partition] = max(b.seenEnd[r.Partition], r.Offset+1)
	})
}

// commit reads as a member of a group and commits offsets.
func (b *tortureBook) commit(ctx context.Context, t *testing.T, client connect) {
	next := map[int32]int64{}
	assigned := func(_ context.Context, _ *kgo.Client, _ map[string][]int32) { clear(next) }
	cl, err := client(kgo.AlwaysRetryEOF(), kgo.ConsumeTopics(tortureTopic),
		kgo.ConsumerGroup(tortureGroup), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.OnPartitionsAssigned(assigned), kgo.BlockRebalanceOnPoll())
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fetches := cl.PollRecords(ctx, 1000)
		fetches.EachRecord(func(r *kgo.Record) {
			if _, ok := next[r.Partition]; !ok {
				if at := b.commits()[r.Partition]; r.Offset < at {
					b.fail("the group begins partition %d at %d, but has committed %d", r.Partition, r.Offset, at)
				}
			}
			next[r.Partition] = r.Offset + 1
		})
		b.read(fetches)
		records := fetches.Records()
		if err := cl.CommitRecords(ctx, records...); err == nil && len(records) > 0 {
			b.mu.Lock()
			b.count++
			for _, r := range records {
				b.committed[r.Partition] = max(b.committed[r.Partition], r.Offset+1)
			}
			b.mu.Unlock()
		}
		cl.AllowRebalance()
	}
	cl.CloseAllowingRebalance()
}

// readsWhatWasSeen reads all partitions from their leaders and compares.
func (b *tortureBook) readsWhatWasSeen(t *testing.T, client connect) {
	cl, err := client(kgo.AlwaysRetryEOF(), kgo.ConsumeTopics(tortureTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond))
	must.OK(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	var logs [torturePartitions][]logRecord
	left := 0
	for p := range torturePartitions {
		left += len(b.acked[p])
	}
	for left > 0 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Offset < b.judged[r.Partition].end {
				return
			}
			logs[r.Partition] = append(logs[r.Partition], logRecord{r.Offset, string(r.Value)})
			left--
		})
	}
	for p := range logs {
		b.compare(int32(p), logs[p], "read at the end")
	}
}

// compare checks the records of a partition's log that are not judged.
func (b *tortureBook) compare(p int32, log []logRecord, where string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := map[int64]string{}
	values := map[string]int64{}
	follows := order{last: maps.Clone(b.judged[p].order.last)}
	for _, r := range log {
		at[r.offset] = r.value
		if before, twice := values[r.value]; twice {
			b.failed("%s: partition %d has %s at %d and %d", where, p, r.value, before, r.offset)
		}
		values[r.value] = r.offset
		if wrong := follows.next(b, p, r.value); wrong != "" {
			b.failed("%s: partition %d, offset %d, %q: %s", where, p, r.offset, r.value, wrong)
		}
	}
	for _, told := range []struct {
		how  string
		what map[int64]string
	}{{"was acknowledged", b.acked[p]}, {"was read", b.seen[p]}} {
		n := 0
		for offset, value := range told.what {
			if at[offset] != value {
				if n++; n <= 5 {
					b.failed("%s: partition %d has %q at %d, %q %s there; it is at %v",
						where, p, at[offset], offset, value, told.how, values[value])
				}
			}
		}
		if n > 0 {
			b.failed("%s: partition %d of %d records: %d %s and are not there", where, p, len(log), n, told.how)
		}
	}
}

// dumped returns the records of the topic in the segments below a data directory.
func dumped(t *testing.T, dir string) map[int32][]logRecord {
	t.Helper()
	cmd := exec.Command("chronikctl", "log", "dump", "segments", "--dir", dir, "--topic", tortureTopic, "--records", "-o", "json")
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("log dump of %s: %v\n%s", dir, err, failed.String())
	}
	logs := map[int32][]logRecord{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var item struct {
			What      string
			Partition int32
			Offset    int64
			Record    struct{ Value string }
		}
		must.OK(t, json.Unmarshal(lines.Bytes(), &item))
		if item.What == "record" {
			logs[item.Partition] = append(logs[item.Partition], logRecord{item.Offset, item.Record.Value})
		}
	}
	return logs
}
