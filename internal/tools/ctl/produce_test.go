package ctl_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// mute is a proxy in front of a broker. Once deaf is set it accepts requests and never answers, so
// that it is unknown whether a record was written.
func mute(t *testing.T) (b *chronik.Broker, deaf *atomic.Bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	b = chronik.StartTest(t, chronik.Options{Settings: map[string]string{"advertise": l.Addr().String()}})
	deaf = new(atomic.Bool)
	proxy(t, l, b.Addr(), func(from, to net.Conn) {
		go func() { _, _ = io.Copy(to, from) }()
		go func() { _, _ = io.Copy(silent{from, deaf}, to) }()
	})
	return b, deaf
}

type silent struct {
	io.Writer
	deaf *atomic.Bool
}

func (s silent) Write(p []byte) (int, error) {
	if s.deaf.Load() {
		return len(p), nil
	}
	return s.Writer.Write(p)
}

// produced starts a produce that reads what the test writes to in.
func produced(ctx context.Context, broker string, args ...string) (in *io.PipeWriter, end chan result) {
	r, in := io.Pipe()
	end = make(chan result, 1)
	go func() {
		var x result
		var out, errs bytes.Buffer
		x.code = ctl.Main(ctx, append([]string{"produce", "a"}, args...), version, ctl.Streams{In: r, Out: &out, Err: &errs,
			Getenv: func(name string) string { return map[string]string{"CHRONIK_BROKERS": broker}[name] }})
		x.errs = errs.String()
		end <- x
	}()
	return in, end
}

type result struct {
	code int
	errs string
}

// holds waits until the topic a has n records.
func holds(t *testing.T, broker string, n int64) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	must.OK(t, err)
	defer cl.Close()
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(time.Millisecond) {
		ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), "a")
		if x, ok := ends.Lookup("a", 0); err == nil && ok && x.Offset >= n {
			return
		}
	}
	t.Fatalf("topic a never has %d records", n)
}

func say(t *testing.T, in io.Writer, line string) {
	t.Helper()
	if _, err := io.WriteString(in, line); err != nil {
		t.Fatal(err)
	}
}

// produce does not wait forever for a broker that stops answering, whether or not there is more
// input.
func TestProduceGivesUpARecordThatNobodyAcknowledges(t *testing.T) {
	b, deaf := mute(t)
	in, end := produced(t.Context(), b.Addr(), "--timeout", "1s")
	say(t, in, "one\n")
	holds(t, b.Addr(), 1)
	deaf.Store(true)
	say(t, in, "two\n")
	got := <-end // in is still open
	if got.code != 1 || !strings.Contains(got.errs, " to a: it was not acknowledged in time, and may or may not be written; ") {
		t.Errorf("%+v", got)
	}
	say(t, in, "three\n") // who is left to read it writes nothing any more
}

// If the broker refuses a record until the timeout, produce reports the broker's error, although
// the client library does not return it.
func TestProduceTellsWhatTheBrokerRefusesUntilTheEnd(t *testing.T) {
	dir := t.TempDir()
	b := chronik.StartTestIn(t, dir, chronik.Options{})
	in, end := produced(t.Context(), b.Addr())
	say(t, in, "one\n")
	must.OK(t, in.Close())
	if got := <-end; got.code != 0 {
		t.Fatalf("%+v", got)
	}
	must.OK(t, b.Close())
	full := chronik.StartTestIn(t, dir,
		chronik.Options{Settings: map[string]string{"chronik.disk.min.free.bytes": strconv.FormatInt(1<<60, 10)}})
	in, end = produced(t.Context(), full.Addr(), "--timeout", "1s")
	say(t, in, "two\n")
	got := <-end
	if got.code != 1 || !strings.Contains(got.errs, "chronikctl: line 1 to a: KAFKA_STORAGE_ERROR: ") ||
		!strings.Contains(got.errs, "or the disk is full: chronikctl cluster health ") {
		t.Errorf("%+v", got)
	}
}

// An interrupt ends a produce that waits for input. Records that it has read are written and
// counted.
func TestProduceIsInterruptedWhileItWaitsForInput(t *testing.T) {
	b := chronik.StartTest(t)
	ctx, interrupt := context.WithCancel(t.Context())
	in, end := produced(ctx, b.Addr())
	say(t, in, "one\n")
	holds(t, b.Addr(), 1)
	interrupt()
	if got := <-end; got.code != 1 ||
		!strings.HasSuffix(got.errs, "\n1 record written to a\nchronikctl: interrupted before the end of the input\n") {
		t.Errorf("%+v", got)
	}
	say(t, in, "two\n")
}

// A topic that the first record creates may take a while: until then the broker answers that it
// does not exist.
func TestProduceWaitsForATopicThatIsBeingCreated(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	b := chronik.StartTest(t, chronik.Options{Settings: map[string]string{"advertise": l.Addr().String(),
		"auto.create.topics.enable": "false"}})
	const metadata, created = 3, 20 // the topic is created when the client has asked that often
	var asks atomic.Int32
	pass := func(frame []byte) bool {
		if binary.BigEndian.Uint16(frame) == metadata && asks.Add(1) == created {
			go func() {
				if code, errs := runAt(t.Context(), b.Addr(), "topic create new"); code != 0 {
					t.Errorf("create the topic: %s", errs)
				}
			}()
		}
		return true
	}
	proxy(t, l, b.Addr(), func(from, to net.Conn) {
		go func() { _ = new(asked).copy(to, from, pass) }()
		go func() { _, _ = io.Copy(from, to) }()
	})
	if code, errs := runAt(t.Context(), l.Addr().String(), "produce new"); code != 0 {
		t.Error(errs)
	}
}
