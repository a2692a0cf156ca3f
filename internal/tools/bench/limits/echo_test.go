package limits

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

func short() EchoConfig {
	return EchoConfig{
		Connections: 4,
		Pipeline:    1,
		MessageSize: 256,
		Topic:       "bench",
		Interval:    frame.Interval{Warmup: 20 * time.Millisecond, Duration: 100 * time.Millisecond},
	}
}

// measured runs an echo that must count something. On a busy machine a short interval may have no
// response, and the system counts CPU time in hundredths of a second: then it measures longer.
func measured(t *testing.T, c EchoConfig) *EchoResult {
	t.Helper()
	for ; ; c.Duration *= 4 {
		r, err := Echo(t.Context(), c)
		must.OK(t, err)
		counted := runtime.GOOS != "linux" || r.Server != nil && r.Server.Seconds > 0 && r.Client != nil && r.Client.Seconds > 0
		if r.Flow.Requests > 0 && counted || c.Duration > 10*time.Second {
			return r
		}
	}
}

// An echo counts every response once, with its latency, its bytes and the CPU time of both
// processes.
func TestEcho(t *testing.T) {
	for _, pipeline := range []int{1, 5} {
		c := short()
		c.Pipeline = pipeline
		r := measured(t, c)
		f := r.Flow
		if f.Requests == 0 || f.Latency.Count != f.Requests || f.Latency.P50 <= 0 || f.Payload != 256*f.Requests || len(f.Failures) > 0 {
			t.Errorf("pipeline %d: %+v", pipeline, f)
		}
		if f.Wire == nil || *f.Wire != f.Requests*int64(r.Request+r.Response) {
			t.Errorf(
				"pipeline %d: wire bytes of %d requests of %d and answers of %d: %v",
				pipeline,
				f.Requests,
				r.Request,
				r.Response,
				f.Wire,
			)
		}
		if r.Elapsed != r.Config.Duration.Seconds() || f.RequestsPerSecond != float64(f.Requests)/r.Elapsed {
			t.Errorf("pipeline %d: %f requests/s of %d in %f s", pipeline, f.RequestsPerSecond, f.Requests, r.Elapsed)
		}
		if runtime.GOOS == "linux" && (r.Server == nil || r.Server.Seconds <= 0 || r.Client == nil || r.Client.Seconds <= 0) {
			t.Errorf("pipeline %d: CPU %v, %v", pipeline, r.Server, r.Client)
		}
	}
}

// The server's response is one of a broker that has stored a record.
func TestTheAnswerIsABrokers(t *testing.T) {
	for _, n := range []int{1, 126, 127, longestName} {
		topic := strings.Repeat("x", n)
		frame := answerTo(topic)
		if p, err := wire.ReadProduced(frame[4:], 0, topic, 0); err != nil || p != (wire.Produced{}) ||
			binary.BigEndian.Uint32(frame) != uint32(len(frame)-4) {
			t.Errorf("topic %q: %+v, %v", topic, p, err)
		}
	}
}

func TestEchoOfARun(t *testing.T) {
	c, err := bench.Default().Complete()
	must.OK(t, err)
	got := EchoOf(c)
	want := EchoConfig{Connections: 128, Pipeline: 1, MessageSize: 256, Topic: c.Topic,
		Interval: frame.Interval{Warmup: c.Warmup, Duration: c.Duration}}
	if got != want || got.check() != nil {
		t.Errorf("%+v, %v", got, got.check())
	}
}

// An invalid or missing response leaves no figure.
func TestEchoIsStrict(t *testing.T) {
	good := answerTo("bench")
	other := func(at int, b byte) []byte {
		frame := slices.Clone(good)
		frame[at] = b
		return frame
	}
	for name, answer := range map[string][]byte{
		"longer":      append(other(3, byte(len(good)-3)), 0),
		"of another":  other(7, 9),
		"an error":    other(len(good)-34, 6), // the error code is before 33 bytes
		"impossible":  {0xff, 0xff, 0xff, 0xff},
		"end":         nil,
		"half an one": good[:10],
	} {
		t.Run(name, func(t *testing.T) {
			c := short()
			if r, err := echo(t.Context(), c, answering(t, answer), os.Getpid()); err == nil || r != nil {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// A second response to a request is a failure, too, although all requests have their response.
func TestEchoRefusesSecondAnswers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr, done := serve(t, ctx, append(answerTo("bench"), answerTo("bench")...))
	if r, err := echo(t.Context(), short(), addr, os.Getpid()); err == nil || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
	cancel()
	must.OK(t, <-done)
}

// answering is a server that responds to the first request of each connection with answer and
// closes it.
func answering(t *testing.T, answer []byte) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.OK(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			size := make([]byte, 4)
			if _, err := io.ReadFull(c, size); err == nil {
				_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size)))
				_, _ = c.Write(answer)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestEchoRefuses(t *testing.T) {
	for name, change := range map[string]func(*EchoConfig){
		"--concurrency": func(c *EchoConfig) { c.Connections = 0 }, "pipeline": func(c *EchoConfig) { c.Pipeline = 1 << 20 },
		"--message-size": func(c *EchoConfig) { c.MessageSize = -1 }, "topic": func(c *EchoConfig) { c.Topic = "" },
		"--duration": func(c *EchoConfig) { c.Duration = 0 },
	} {
		c := short()
		change(&c)
		if _, err := Echo(t.Context(), c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An interrupt shortens the interval; in the warm-up it leaves none.
func TestEchoEndsWithItsContext(t *testing.T) {
	c := short()
	c.Connections, c.Warmup, c.Duration = 1, 0, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	r, err := echo(ctx, c, cancelling(t, 100, cancel), os.Getpid())
	if err != nil || r.Flow.Requests < 99 || r.Elapsed <= 0 || r.Elapsed > 600 {
		t.Errorf("cut after 100 answers: %+v, %v", r, err)
	}
	c.Warmup = time.Hour
	ctx, cancel = context.WithCancel(t.Context())
	if r, err := echo(ctx, c, cancelling(t, 1, cancel), os.Getpid()); !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("cut in the warm-up: %+v, %v", r, err)
	}
}

// cancelling is an echo server of one connection that cancels after n responses, and continues.
func cancelling(t *testing.T, n int, cancel func()) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.OK(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		near, far := net.Pipe()
		defer far.Close()
		wg.Go(func() { (&server{answer: answerTo("bench")}).echo(near); near.Close() })
		wg.Go(func() { _, _ = io.Copy(far, c); far.Close() })
		answer := answerTo("bench")
		for i := 1; ; i++ {
			if _, err := io.ReadFull(far, answer); err != nil {
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
			if i == n {
				cancel()
			}
		}
	})
	return l.Addr().String()
}
