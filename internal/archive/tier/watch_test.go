package tier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/archive/tierread"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// failingReads are reads that fail with an error.
type failingReads struct {
	replica.Tiers
	err error
}

func (f *failingReads) FindTime(context.Context, metadata.TopicPartition, *metadata.Tier, int64) (storage.Timestamp, error) {
	return storage.Timestamp{}, f.err
}

func (f *failingReads) Aborted(context.Context, metadata.TopicPartition, *metadata.Tier, int64, int64) ([]txnindex.Entry, bool, error) {
	return nil, false, f.err
}

// readable are reads that get records, and nothing of an index.
type readable struct{ failingReads }

func (*readable) Read(context.Context, metadata.TopicPartition, *metadata.Tier, int64, int64, int, bool) (storage.Slice, error) {
	return storage.Slice{}, nil
}

// Each read of committed records gets the records, and then not the aborted transactions: none has
// an answer. A partition of which several things are not read is one failure.
func TestRecordsThatAreReadHideNoIndexThatIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		reads := &readable{failingReads{err: errors.New("the index is missing")}}
		w := &Watch{Reads: reads, Logger: zap.New(core), Name: func([16]byte) string { return "t" }}
		fetch := func() {
			_, _ = w.Read(t.Context(), metadata.TopicPartition{}, nil, 0, 0, 0, false)
			_, _, _ = w.Aborted(t.Context(), metadata.TopicPartition{}, nil, 0, 0)
			_, _ = w.FindTime(t.Context(), metadata.TopicPartition{}, nil, 0)
		}
		for range 9 {
			fetch()
			time.Sleep(time.Second)
		}
		if list := w.Failures(); len(list) != 1 || !errors.Is(list[0].Err, reads.err) || time.Since(list[0].Since) != 9*time.Second {
			t.Errorf("failures: %+v", list)
		}
		reads.err = nil
		fetch()
		if list := w.Failures(); len(list) != 0 {
			t.Errorf("after a success: %+v", list)
		}
		var said []string
		for _, e := range logs.FilterMessageSnippet("aborted transactions").All() {
			said = append(said, e.Message)
		}
		want := "aborted transactions cannot be read from the object store, aborted transactions can be read from the object store again"
		if got := strings.Join(said, ", "); got != want {
			t.Errorf("said: %s", got)
		}
	})
}

// A partition counts when its reads have failed for a while, until one succeeds or none comes.
func TestReadsThatFailAreNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		reads := &failingReads{}
		gone := [16]byte{9}
		w := &Watch{Reads: reads, Logger: zap.New(core), Name: func(id [16]byte) string {
			if id == gone {
				return ""
			}
			return "t"
		}}
		read := func(tp metadata.TopicPartition, err error) {
			reads.err = err
			_, _ = w.FindTime(t.Context(), tp, nil, 0)
		}
		want := func(want string) {
			t.Helper()
			var list []string
			for _, f := range w.Failures() {
				list = append(list, fmt.Sprintf("%s-%d %v %v", f.Topic, f.Partition, time.Since(f.Since), f.Err))
			}
			if got := strings.Join(list, ", "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		one, two, three := metadata.TopicPartition{}, metadata.TopicPartition{Partition: 2}, metadata.TopicPartition{Topic: gone}
		for _, tp := range []metadata.TopicPartition{one, two, three} {
			read(tp, errors.New("x is missing"))
		}
		read(metadata.TopicPartition{Partition: 4}, tierread.ErrClosed)
		read(metadata.TopicPartition{Partition: 5}, storage.ErrOffsetOutOfRange)
		want("")
		time.Sleep(leastUnread)
		want("") // no further read has failed
		read(one, errors.New("x is missing"))
		read(two, fmt.Errorf("read: %w", context.DeadlineExceeded))
		read(three, errors.New("x is missing"))
		want("t-0 5s x is missing, t-2 5s " + errSlow.Error())
		read(one, errors.New("x is missing"))
		if logs.Len() != 2 {
			t.Errorf("%d lines in the log, want one for each partition", logs.Len())
		}
		read(one, nil)
		want("t-2 5s " + errSlow.Error())
		time.Sleep(forgetUnread + time.Millisecond)
		want("")
		read(two, errors.New("again"))
		want("")
	})
}

// Copies take no more bytes per second than the setting permits, which may change.
func TestACopyHasItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := int64(1000)
		c := &Copier{opt: Options{Rate: func() int64 { return rate }}}
		for _, x := range []struct {
			rate int64
			took time.Duration
		}{{1000, 5 * time.Second}, {500, 10 * time.Second}, {0, 0}} {
			rate = x.rate
			began := time.Now()
			for range 5 {
				if err := c.spend(t.Context(), 1000); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took != x.took {
				t.Errorf("5,000 bytes at %d bytes/s took %v, want %v", x.rate, took, x.took)
			}
		}
	})
}
