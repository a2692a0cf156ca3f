package system

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

const (
	restartsByDefault = 2 // CHRONIK_RESTARTS sets another number
	restartClients    = 4
	restartRecords    = 10 // between two restarts, at least
)

// A broker that stops and starts in an orderly way ends no connection before its first answer:
// franz-go, which takes that for a port with TLS or SASL, would fail its records. The clients have
// the defaults in this; each record has a client of its own.
func TestRestartsFailNoRecords(t *testing.T) {
	t.Parallel() // it waits for the disk and for processes most of the time
	restarts, err := strconv.Atoi(cmp.Or(os.Getenv("CHRONIK_RESTARTS"), strconv.Itoa(restartsByDefault)))
	must.OK(t, err)
	addr, err := ports.Loopback()
	must.OK(t, err)
	dir := t.TempDir()
	broker := restart(t, dir, addr)
	makeRestartsTopic(t, addr)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var written atomic.Int64
	for range restartClients {
		clients.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				writeOnce(t, addr)
				written.Add(1)
			}
		})
	}
	for range restarts {
		for before := written.Load(); written.Load() < before+restartRecords && !t.Failed(); {
			pause(t.Context(), time.Millisecond)
		}
		if err := broker.end(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: %v\n%s", err, broker.logged())
		}
		broker = restart(t, dir, addr)
	}
	stop()
	clients.Wait()
	t.Logf("%d records in %d restarts", written.Load(), restarts)
}

func makeRestartsTopic(t *testing.T, addr string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	must.OK(t, err)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "restarts"); err != nil {
		t.Fatal(err)
	}
}

// writeOnce writes one record with a client of its own.
func writeOnce(t *testing.T, addr string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("restarts"), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(10*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		kgo.RequestRetries(1000)) // of 10 ms, which last longer than a restart
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	if err := cl.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Error(err)
	}
}
