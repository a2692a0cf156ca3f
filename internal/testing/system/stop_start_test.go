package system

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
)

const (
	stopTopic      = "stopped"
	stopPartitions = 16
	stopRecords    = 60_000 // with stopSize enough for a recovery of about 100 ms
	stopSize       = 1 << 10
)

// A broker that is asked to stop during recovery ends at once with exit code 0, as it does when it
// serves clients. The next start has every record.
func TestStopEndsARecovery(t *testing.T) {
	t.Parallel() // it waits for the disk and for processes most of the time
	dir, sent := t.TempDir(), int64(0)
	for range 5 {
		sent += fillAndKill(t, dir)
		p, err := launch(dir, nil, "--data-dir", "d", "--listen", "127.0.0.1:0", "--admin-listen", "off")
		must.OK(t, err)
		for begun := time.Now(); !strings.Contains(p.logged(), "reading the journal"); time.Sleep(100 * time.Microsecond) {
			if time.Since(begun) > startTime {
				_ = p.end(syscall.SIGKILL)
				t.Fatalf("it does not recover:\n%s", p.logged())
			}
		}
		if err := p.end(syscall.SIGTERM); err != nil {
			t.Fatalf("ended with %v:\n%s", err, p.logged())
		}
		if lines := p.errors(); len(lines) > 0 {
			t.Fatalf("errors: %q", lines)
		}
		if strings.Contains(p.logged(), `"msg":"recovered"`) {
			continue // the recovery ended before the signal arrived
		}
		if !strings.Contains(p.logged(), "stopped before it was ready, as requested") {
			t.Fatalf("it does not report why it ended:\n%s", p.logged())
		}
		if have := recorded(t, dir); have != sent {
			t.Fatalf("%d records exist, but %d were acknowledged", have, sent)
		}
		return
	}
	t.Fatal("no recovery was interrupted")
}

// fillAndKill writes records and kills the broker when all are acknowledged.
func fillAndKill(t *testing.T, dir string) int64 {
	t.Helper()
	p, cl := startWithClient(t, dir)
	defer func() { _ = p.end(syscall.SIGKILL) }()
	defer cl.Close()
	// It fails if the topic exists already.
	_, _ = kadm.NewClient(cl).CreateTopic(t.Context(), stopPartitions, 1, nil, stopTopic)
	value := []byte(strings.Repeat("v", stopSize))
	failed := make(chan error, 1)
	for range stopRecords {
		cl.Produce(t.Context(), &kgo.Record{Topic: stopTopic, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	must.OK(t, cl.Flush(t.Context()))
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	return stopRecords
}

// recorded starts the broker again and counts the topic's records.
func recorded(t *testing.T, dir string) (n int64) {
	t.Helper()
	p, cl := startWithClient(t, dir)
	defer func() {
		if err := p.end(syscall.SIGTERM); err != nil {
			t.Errorf("ended with %v:\n%s", err, p.logged())
		}
	}()
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), stopTopic)
	must.OK(t, err)
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

func startWithClient(t *testing.T, dir string) (*process, *kgo.Client) {
	t.Helper()
	p, err := start(dir, nil, "--data-dir", "d", "--listen", "127.0.0.1:0", "--admin-listen", "off")
	must.OK(t, err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.MaxBufferedRecords(stopRecords))
	if err != nil {
		_ = p.end(syscall.SIGKILL)
		t.Fatal(err)
	}
	return p, cl
}
