package system

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// hangingStore is an object store that can stop answering.
type hangingStore struct {
	*httptest.Server
	hangs    atomic.Bool
	waiting  atomic.Int64 // requests that wait for an answer
	answered atomic.Int64
	gone     chan struct{} // closed at the end of the test
}

func newHangingStore(t *testing.T) *hangingStore {
	t.Helper()
	back := s3mem.New()
	must.OK(t, back.CreateBucket("bucket"))
	s, h := &hangingStore{gone: make(chan struct{})}, gofakes3.New(back).Server()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.hangs.Load() {
			s.waiting.Add(1)
			defer s.waiting.Add(-1)
			select {
			case <-r.Context().Done(): // the client has given up
			case <-s.gone:
			}
			return
		}
		h.ServeHTTP(w, r)
		s.answered.Add(1)
	}))
	t.Cleanup(func() {
		close(s.gone)
		s.Close()
	})
	return s
}

// steadyWriters write to a topic one record after the other: one writer for each partition, and one
// with transactions of one record.
type steadyWriters struct {
	c       *nodes
	stop    context.CancelFunc
	running sync.WaitGroup

	mu           sync.Mutex
	acknowledged [][]string // of each writer
	failed       error
}

func newSteadyWriters(c *nodes, topic string, partitions int) *steadyWriters {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	s := &steadyWriters{c: c, stop: stop, acknowledged: make([][]string, partitions+1)}
	c.t.Cleanup(func() {
		stop()
		s.running.Wait()
	})
	for id := range partitions + 1 {
		transactional := id == partitions
		opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner())}
		if transactional {
			opts = append(opts, kgo.TransactionalID("steady"))
		}
		cl, err := c.client(opts...)
		must.OK(c.t, err)
		c.t.Cleanup(cl.Close)
		s.running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r := &kgo.Record{Partition: int32(id % partitions), Value: fmt.Appendf(nil, "%d %d", id, n)}
				err := s.write(cl, r, transactional)
				s.mu.Lock()
				if err == nil {
					s.acknowledged[id] = append(s.acknowledged[id], string(r.Value))
				}
				if s.failed == nil {
					s.failed = err
				}
				s.mu.Unlock()
				if err != nil {
					return
				}
				pause(ctx, 100*time.Millisecond) // the machine has other tests
			}
		})
	}
	return s
}

// write writes a record. It does not end with the test: what is in progress is acknowledged.
func (s *steadyWriters) write(cl *kgo.Client, r *kgo.Record, transactional bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	if !transactional {
		return cl.ProduceSync(ctx, r).FirstErr()
	}
	err := cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(ctx, r).FirstErr()
	}
	if err == nil {
		err = cl.EndTransaction(ctx, kgo.TryCommit)
	}
	return err
}

// progress waits until each writer has n more records acknowledged.
func (s *steadyWriters) progress(n int) {
	s.c.t.Helper()
	counts := func() (list []int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		must.OK(s.c.t, s.failed)
		for i := range s.acknowledged {
			list = append(list, len(s.acknowledged[i]))
		}
		return list
	}
	before := counts()
	s.c.eventually(fmt.Sprintf("%d more records of each writer", n), func(context.Context) string {
		for id, have := range counts() {
			if have < before[id]+n {
				return fmt.Sprintf("writer %d has written %d", id, have-before[id])
			}
		}
		return ""
	})
}

// end ends the writers, and returns all acknowledged records, sorted.
func (s *steadyWriters) end() []string {
	s.c.t.Helper()
	s.stop()
	s.running.Wait()
	must.OK(s.c.t, s.failed)
	return slices.Sorted(slices.Values(slices.Concat(s.acknowledged...)))
}

// The object store of three brokers stops answering while snapshots are taken. All records and
// transactions are acknowledged nevertheless, also while a snapshot fails and others begin. The
// health of the cluster says why there are no snapshots. When the store answers again, the next
// snapshot has every acknowledged record.
func TestAcknowledgementsDoNotWaitForTheStore(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for a call of the store to end, for two minutes
	store := newHangingStore(t)
	keys := filepath.Join(t.TempDir(), "keys")
	must.OK(t, os.WriteFile(keys, []byte("aws_access_key_id=id\naws_secret_access_key=secret\n"), 0o600))
	c := newNodes(t, 3)
	c.expected = append([]string{`"logger":"health"`}, othersEnd...)
	c.set = []string{"archive.url=s3://bucket", "archive.endpoint=" + store.URL, "archive.keys.file=" + keys, "snapshot.interval.ms=1000"}
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	const partitions = 3
	c.does(fmt.Sprintf("topic create t --partitions %d --replication-factor 3", partitions), "t created")
	c.does("snapshot create", "uploaded")

	store.hangs.Store(true)
	writers := newSteadyWriters(c, "t", partitions)
	c.eventually("a snapshot that waits for the store", func(ctx context.Context) string {
		_, text := c.ctl(ctx, "snapshot list")
		if n := store.waiting.Load(); n == 0 || !strings.Contains(text, "a snapshot is being taken") {
			return fmt.Sprintf("%d requests wait: %s", n, text)
		}
		return ""
	})
	answered := store.answered.Load()
	writers.progress(100)
	c.eventually("the finding", func(ctx context.Context) string {
		_, text := c.ctl(ctx, "cluster health")
		if !strings.Contains(text, "the last attempt to take a snapshot failed") || !strings.Contains(text, "does not answer in time") {
			return text
		}
		return ""
	})
	writers.progress(100)
	if n := store.answered.Load(); n != answered {
		t.Errorf("the store has answered %d requests meanwhile", n-answered)
	}

	store.hangs.Store(false)
	acknowledged := writers.end()
	c.does("snapshot create", "uploaded")
	c.eventually("the end of the finding", func(ctx context.Context) string {
		if _, text := c.ctl(ctx, "cluster health"); strings.Contains(text, "attempt to take a snapshot") {
			return text
		}
		return ""
	})
	dir := t.TempDir()
	p, err := launch(dir, nil, "restore", "s3://bucket", "--data-dir", "d", "--set", "archive.endpoint="+store.URL, "--set",
		"archive.keys.file="+keys)
	must.OK(t, err)
	if err := <-p.done; err != nil {
		t.Fatalf("restore: %v\n%s", err, p.logged())
	}
	p, err = start(dir, nil, "--data-dir", "d", "--listen", "127.0.0.1:0", "--admin-listen", "off")
	must.OK(t, err)
	defer func() { must.OK(t, p.end(syscall.SIGTERM)) }()
	var have []string
	for _, r := range committed(t, p.Addr, "t") {
		have = append(have, string(r.Value))
	}
	if slices.Sort(have); !slices.Equal(have, acknowledged) {
		t.Errorf("%d records were acknowledged, and the snapshot has %d", len(acknowledged), len(have))
	}
}
