package ctl_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// stored returns the directory of a stopped broker with a topic a of two partitions, each with
// three batches of two records, and a function that runs chronikctl against a broker started
// on it.
func stored(t *testing.T) (dir string, start func() toolAt) {
	t.Helper()
	dir = t.TempDir()
	settings := map[string]string{"chronik.disk.min.free.bytes": "0", "group.initial.rebalance.delay.ms": "0"}
	b, err := chronik.Open(t.Context(), dir, chronik.Options{Settings: settings})
	must.OK(t, err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must.OK(t, err)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 2, 1, nil, "a"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for p := range int32(2) {
			value := func(n int) *kgo.Record {
				return &kgo.Record{Topic: "a", Partition: p, Value: fmt.Appendf(nil, "p%d-%d", p, 2*i+n)}
			}
			must.OK(t, cl.ProduceSync(t.Context(), value(0), value(1)).FirstErr())
		}
	}
	must.OK(t, b.Close())
	return dir, func() toolAt {
		b := chronik.StartTestIn(t, dir, chronik.Options{Settings: settings})
		return toolAt{b.Addr(), t}
	}
}

// toolAt runs chronikctl against a broker.
type toolAt struct {
	broker string
	t      *testing.T
}

func (c toolAt) run(in string, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = c.main(c.t.Context(), in, &o, &e, args...)
	return code, o.String(), e.String()
}

func (c toolAt) main(ctx context.Context, in string, out, errs io.Writer, args ...string) int {
	return ctl.Main(ctx, args, version, ctl.Streams{In: strings.NewReader(in), Out: out, Err: errs,
		Getenv: func(name string) string {
			return map[string]string{"CHRONIK_BROKERS": c.broker, "HOME": c.t.TempDir()}[name]
		}})
}

// watched is a stream that reports when a text has been written to it.
type watched struct {
	mu    sync.Mutex
	text  strings.Builder
	until string
	seen  chan struct{} // closed then
}

func watch(until string) *watched { return &watched{until: until, seen: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.text.String(), w.until)
	w.text.Write(p)
	if !before && strings.Contains(w.text.String(), w.until) {
		close(w.seen)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// segmentOf returns the only segment of a partition of the topic a, and its bytes.
func segmentOf(t *testing.T, dir string, partition int) (file string, data []byte) {
	t.Helper()
	file = filepath.Join(dir, "logs", fmt.Sprintf("a-%d", partition), "00000000000000000000.log")
	data, err := os.ReadFile(file)
	must.OK(t, err)
	return file, data
}

// rewrite replaces a segment. None of it may be in memory.
func rewrite(t *testing.T, file string, data []byte) {
	t.Helper()
	must.OK(t, os.WriteFile(file, data, 0o600))
}

const first = "p0-0\np0-1\np0-2\np0-3\np0-4\np0-5\n"

// A damaged batch affects neither the other partition nor the records before it, and the error
// names the next offset that can be read.
func TestADamagedBatch(t *testing.T) {
	dir, start := stored(t)
	file, data := segmentOf(t, dir, 1)
	data[len(data)/2] ^= 1 // the second of three batches
	rewrite(t, file, data)
	run := start().run
	for _, line := range []string{"consume a", "consume a --group g", "consume a --from 1h"} {
		code, out, errs := run("", strings.Fields(line)...)
		var of [2]string // partitions come in any order
		for l := range strings.Lines(out) {
			of[l[1]-'0'] += l
		}
		goOn := "`chronikctl consume a --partition 1 --from 4` reads the records after them, --skip-damaged all others"
		if strings.Contains(line, "--group") {
			goOn = "`chronikctl group reset g --topic a:1 --to-offset 4`, while the group has no members, moves the group past them"
		}
		want := "chronikctl: a partition 1: CORRUPT_MESSAGE: offsets 2 to 3 cannot be read; " + goOn +
			"; a stored batch is damaged: chronikctl log verify, "
		if code != 1 || of[0] != first || of[1] != "p1-0\np1-1\n" || !strings.HasPrefix(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d\n%s%s", line, code, out, errs)
		}
	}
	if code, out, errs := run("", "consume", "a", "-p", "1", "--from", "4"); code != 0 || out != "p1-4\np1-5\n" || errs != "" {
		t.Errorf("behind the damage: code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := run("", "consume", "a", "-p", "0"); code != 0 || out != first || errs != "" {
		t.Errorf("the other partition: code %d\n%s%s", code, out, errs)
	}
	for _, line := range []string{"consume a --skip-damaged -p 1", "consume a --skip-damaged -p 1 --from 3"} {
		code, out, errs := run("", strings.Fields(line)...)
		var skipped string
		for l := range strings.Lines(out) {
			if l[1] == '1' {
				skipped += l
			}
		}
		want, note := "p1-0\np1-1\np1-4\np1-5\n", "note: a partition 1: offsets 2 to 3 cannot be read and are skipped, at most 2 records\n"
		if strings.Contains(line, "--from") {
			want, note = "p1-4\np1-5\n", "note: a partition 1: offsets 3 to 3 cannot be read and are skipped, at most 1 record\n"
		}
		if code != 0 || skipped != want || errs != note {
			t.Errorf("%s: code %d\n%s%s", line, code, out, errs)
		}
	}
	// The group has committed the printed records and no others.
	if code, out, errs := run("", "group", "export", "g"); code != 0 || !strings.Contains(out, "a,0,6\n") ||
		!strings.Contains(out, "a,1,2\n") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}

// After damage up to the end nothing can be read.
func TestADamagedEnd(t *testing.T) {
	dir, start := stored(t)
	file, data := segmentOf(t, dir, 1)
	data[len(data)/2] ^= 1
	data[len(data)-1] ^= 1
	rewrite(t, file, data)
	code, out, errs := start().run("", "consume", "a", "--partition", "1")
	if code != 1 || out != "p1-0\np1-1\n" ||
		!strings.HasPrefix(errs, "chronikctl: a partition 1: CORRUPT_MESSAGE: nothing can be read from offset 2 on; a stored batch") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}

// Skipping damage up to the end reaches the end.
func TestSkippingADamagedEnd(t *testing.T) {
	dir, start := stored(t)
	file, data := segmentOf(t, dir, 1)
	data[len(data)-1] ^= 1
	rewrite(t, file, data)
	code, out, errs := start().run("", "consume", "a", "--partition", "1", "--skip-damaged")
	if code != 0 || out != "p1-0\np1-1\np1-2\np1-3\n" ||
		errs != "note: a partition 1: offsets 4 to 5 cannot be read and are skipped, at most 2 records\n" {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}

// A following reader reports the damage at once and continues with the other partition.
func TestFollowingPastDamage(t *testing.T) {
	dir, start := stored(t)
	file, data := segmentOf(t, dir, 1)
	data[len(data)/2] ^= 1
	rewrite(t, file, data)
	c := start()
	out, errs := watch("p0-later\n"), watch("; reading the other partitions and retrying this one\n")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	code := make(chan int, 1)
	go func() { code <- c.main(ctx, "", out, errs, "consume", "a", "--follow") }()
	<-errs.seen
	if code, _, errs := c.run("p0-later\n", "produce", "a", "-p", "0"); code != 0 {
		t.Error(errs)
	}
	<-out.seen
	interrupt()
	if code := <-code; code != 1 || strings.Count(errs.String(), "\n") != 2 ||
		!strings.HasPrefix(errs.String(), "note: a partition 1: CORRUPT_MESSAGE: offsets 2 to 3 cannot be read") {
		t.Errorf("code %d\n%s", code, errs)
	}
}

// An offline partition does not affect the other one.
func TestAnOfflinePartition(t *testing.T) {
	dir, start := stored(t)
	file, data := segmentOf(t, dir, 1)
	rewrite(t, file, data[:len(data)/2])
	run := start().run
	for _, line := range []string{"consume a", "consume a --group g", "consume a --from 1h", "consume a --count 99"} {
		code, out, errs := run("", strings.Fields(line)...)
		if code != 1 || out != first || !strings.HasPrefix(errs, "chronikctl: a partition 1: KAFKA_STORAGE_ERROR: ") ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d\n%s%s", line, code, out, errs)
		}
	}
	if code, out, errs := run("", "consume", "a", "-p", "0"); code != 0 || out != first || errs != "" {
		t.Errorf("the other partition: code %d\n%s%s", code, out, errs)
	}
	for _, line := range []string{"topic list -o wide", "topic describe a", "group list"} {
		if code, out, errs := run("", strings.Fields(line)...); code != 0 || errs != "" {
			t.Errorf("%s: code %d\n%s%s", line, code, out, errs)
		}
	}
	if code, out, errs := run("", "topic", "trim", "a", "-p", "0", "--before", "3", "--yes"); code != 0 {
		t.Errorf("trim of the other partition: code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := run("", "topic", "trim", "a", "--before", "3", "--yes"); code != 1 ||
		!strings.Contains(errs, "trim a partition 1: KAFKA_STORAGE_ERROR: ") {
		t.Errorf("trim of both: code %d\n%s", code, errs)
	}
	// Records without a key go to the other partition, even in several batches.
	code, _, errs := run(strings.Repeat("x\n", 1000), "produce", "a", "--max-batch-bytes", "1KiB")
	if code != 0 || errs != "note: partition 1 cannot be written, so records without a key go to the others; chronikctl cluster health "+
		"shows the cause\n1,000 records written to a\n" {
		t.Errorf("produce: code %d\n%s", code, errs)
	}
	if code, _, errs := run("x\n", "produce", "a", "--partition", "1", "--timeout", "1s"); code != 1 ||
		!strings.Contains(errs, "chronikctl: line 1 to a: KAFKA_STORAGE_ERROR: ") {
		t.Errorf("produce to the offline one: code %d\n%s", code, errs)
	}
}
