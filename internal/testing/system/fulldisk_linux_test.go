package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
)

const (
	smallDisk     = 512 << 20
	smallDiskKeep = 64 << 20 // chronik.disk.min.free.bytes on the small disk
	diskRecord    = 32 << 10 // bytes of a value
)

// mountSmall mounts a small in-memory file system at dir.
func mountSmall(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", smallDisk)); err != nil {
		t.Skipf("can't mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// diskWriter is a producer that writes numbered records to a topic of one partition until it is
// stopped, and counts the acknowledged ones.
type diskWriter struct {
	topic string
	acked atomic.Int64 // number of acknowledged records; their offsets are below it
	fail  atomic.Pointer[error]
	quit  context.CancelFunc
	done  chan struct{}
}

func numbered(n int64) []byte {
	return fmt.Appendf(make([]byte, 0, diskRecord), "%010d%s", n, strings.Repeat(strconv.FormatInt(n%10, 10), diskRecord-10))
}

func writeOn(t *testing.T, addr, topic string) *diskWriter {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(256), kgo.MetadataMinAge(20*time.Millisecond), kgo.ProducerLinger(0))
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w := &diskWriter{topic: topic, quit: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer c.Close()
		for n := int64(0); ctx.Err() == nil; n++ {
			// Without a context: only the broker may refuse a record.
			c.Produce(context.WithoutCancel(ctx), &kgo.Record{Value: numbered(n)}, func(r *kgo.Record, err error) {
				if err == nil && r.Offset != n {
					err = fmt.Errorf("record %d has offset %d", n, r.Offset)
				}
				if err != nil {
					w.fail.CompareAndSwap(nil, &err)
					return
				}
				w.acked.Add(1)
			})
		}
		flush, end := context.WithTimeout(context.WithoutCancel(ctx), startTime)
		defer end()
		if err := c.Flush(flush); err != nil {
			w.fail.CompareAndSwap(nil, &err)
		}
	}()
	t.Cleanup(cancel)
	return w
}

// beyond waits until more than n records are acknowledged.
func (w *diskWriter) beyond(t *testing.T, n int64) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d records of %s are acknowledged", n, w.topic), func() bool {
		if err := w.fail.Load(); err != nil {
			t.Fatalf("a record failed: %v", *err)
		}
		return w.acked.Load() >= n
	})
}

func (w *diskWriter) stop(t *testing.T) (acked int64) {
	t.Helper()
	w.quit()
	<-w.done
	if err := w.fail.Load(); err != nil {
		t.Errorf("a record failed: %v", *err)
	}
	return w.acked.Load()
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > startTime {
			t.Fatalf("never: %s", what)
		}
	}
}

// adminText fetches a path of the admin port.
func adminText(t *testing.T, p *process, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + p.Admin + path)
	must.OK(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", path, resp.StatusCode, err, body)
	}
	return string(body)
}

// freeOn returns the free bytes of a directory's file system.
func freeOn(t *testing.T, dir string) int64 {
	t.Helper()
	var s syscall.Statfs_t
	must.OK(t, syscall.Statfs(dir, &s))
	return int64(s.Bavail) * s.Bsize
}

// A producer writes to a disk until it is nearly full. The broker stops it before the disk is full.
// The producer waits and continues automatically when space is free, first after a topic was
// deleted and then after retention. After a kill, all acknowledged records that retention has kept
// are there.
func TestFullDiskLosesNothing(t *testing.T) {
	t.Parallel() // it waits for the disk and for processes most of the time
	dir := t.TempDir()
	mountSmall(t, dir)
	env := []string{"CHRONIK_CHRONIK_DISK_MIN_FREE_BYTES=" + strconv.Itoa(smallDiskKeep)}
	p, err := start(dir, env, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr))
	must.OK(t, err)
	t.Cleanup(cl.Close)
	adm := kadm.NewClient(cl)
	small := map[string]*string{"segment.bytes": kadm.StringPtr("4194304"), "file.delete.delay.ms": kadm.StringPtr("100")}
	if _, err := adm.CreateTopics(t.Context(), 1, 1, small, "ballast", "t"); err != nil {
		t.Fatal(err)
	}
	ballast := writeOn(t, p.Addr, "ballast")
	ballast.beyond(t, 80<<20/diskRecord)
	ballast.stop(t)

	full := func() {
		t.Helper()
		waitFor(t, "the disk is nearly full", func() bool { return strings.Contains(adminText(t, p, "/readyz"), "bad: disk of") })
		if free := freeOn(t, dir); free < smallDiskKeep/2 {
			t.Errorf("%d bytes are free, want the broker to stop at %d", free, smallDiskKeep)
		}
	}
	w := writeOn(t, p.Addr, "t")
	full()
	refused := regexp.MustCompile(`chronik_low_space_refused_total\{[^}]*\} [1-9]`)
	waitFor(t, "records are refused", func() bool { return refused.MatchString(adminText(t, p, "/metrics")) })
	had := w.acked.Load()
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "more"); err == nil || !strings.Contains(err.Error(), "POLICY_VIOLATION") {
		t.Errorf("creating a topic on a full disk: %v", err)
	}
	if _, err := adm.DeleteTopic(t.Context(), "ballast"); err != nil {
		t.Fatal(err)
	}
	w.beyond(t, had+500)

	full()
	had = w.acked.Load()
	if _, err := adm.AlterTopicConfigs(t.Context(),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.bytes", Value: kadm.StringPtr("16777216")}}, "t"); err != nil {
		t.Fatal(err)
	}
	w.beyond(t, had+500)
	acked := w.stop(t)
	_ = p.end(syscall.SIGKILL)

	if p, err = start(dir, env, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	first := readNumbered(t, p.Addr, acked)
	if first == 0 {
		t.Error("retention deleted nothing")
	}
	t.Logf("%d records are acknowledged, %d are there", acked, acked-first)
}

// readNumbered reads a diskWriter's records up to a number and returns the number of the oldest
// one.
func readNumbered(t *testing.T, addr string, end int64) (first int64) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
	must.OK(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	first = -1
	for next := int64(-1); next < end; {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("at %d of %d: %v", next, end, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if first < 0 {
				first, next = r.Offset, r.Offset
			}
			if r.Offset != next || !bytes.Equal(r.Value, numbered(next)) {
				t.Fatalf("want record %d, got %.10s at offset %d", next, r.Value, r.Offset)
			}
			next++
		})
	}
	return first
}
