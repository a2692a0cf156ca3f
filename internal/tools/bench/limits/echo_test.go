package limits

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
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

// The size of the responses is that of a broker, by the protocol's definition.
func TestAnswerSize(t *testing.T) {
	for _, topic := range []string{"t", "chronik-bench", strings.Repeat("x", 126), strings.Repeat("x", 127), strings.Repeat("x",
		longestName)} {
		a := kmsg.NewPtrProduceResponse()
		a.Version = 9
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic = topic
		rt.Partitions = append(rt.Partitions, kmsg.NewProduceResponseTopicPartition())
		a.Topics = append(a.Topics, rt)
		const lengthAndHeader = 4 + 4 + 1
		if want := lengthAndHeader + len(a.AppendTo(nil)); answerSize(topic) != want {
			t.Errorf("topic %q: %d bytes, not %d", topic, answerSize(topic), want)
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

// An invalid or missing response ends the measurement without a figure.
func TestEchoIsStrict(t *testing.T) {
	size := uint32(answerSize("bench"))
	frame := func(length uint32, id uint32) []byte {
		b := make([]byte, length)
		binary.BigEndian.PutUint32(b, length-4)
		binary.BigEndian.PutUint32(b[4:], id)
		return b
	}
	for name, tc := range map[string]struct {
		answer []byte
		want   string
	}{
		"longer":      {frame(size+1, 0), "got a response of"},
		"shorter":     {frame(size-1, 0), "got a response of"},
		"of another":  {frame(size, 9), "to request 9"},
		"twice":       {append(frame(size, 0), frame(size, 0)...), "to request 0"},
		"unasked":     {append(frame(size, 0), frame(size, 1)...), "to request 1"},
		"impossible":  {[]byte{0xff, 0xff, 0xff, 0xff}, "impossible length"},
		"end":         {nil, "EOF"},
		"half an one": {frame(size, 0)[:10], "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			c := short()
			c.Duration = time.Hour // the error ends it
			addr := answering(t, tc.answer)
			if r, err := echo(t.Context(), c, addr, os.Getpid()); err == nil || r != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, %v; want an error about %q", r, err, tc.want)
			}
		})
	}
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

// If a connection fails, the run of the others ends: fewer connections measure something else.
func TestEchoEndsWithOneConnection(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	c := short()
	c.Connections, c.Duration = 2, time.Hour
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		good, err1 := l.Accept()
		bad, err2 := l.Accept()
		if err := errors.Join(err1, err2); err != nil {
			t.Error(err)
			return
		}
		bad.Close()
		(&server{response: answerSize(c.Topic)}).echo(good)
		good.Close()
	})
	if r, err := echo(t.Context(), c, l.Addr().String(), os.Getpid()); err == nil || r != nil {
		t.Errorf("%v, %v with one of two connections", r, err)
	}
}

// A connection that waits for a response ends when another one fails, although its own deadline is
// after the interval.
func TestEchoFailsWhileAnotherWaits(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.OK(t, err)
	c := short()
	c.Connections, c.Duration = 2, time.Hour
	type outcome struct {
		result *EchoResult
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		r, err := echo(t.Context(), c, l.Addr().String(), os.Getpid())
		ended <- outcome{r, err}
	}()
	silent, err1 := l.Accept()
	bad, err2 := l.Accept()
	l.Close()
	must.OK(t, errors.Join(err1, err2))
	defer silent.Close()
	// The request was sent, so this connection waits for its response.
	if _, err := io.ReadFull(silent, make([]byte, smallestFrame)); err != nil {
		t.Fatal(err)
	}
	bad.Close()
	select {
	case o := <-ended:
		if o.err == nil || o.result != nil {
			t.Errorf("%v, %v with one of two connections", o.result, o.err)
		}
	case <-time.After(time.Minute):
		t.Error("the connection without an answer still waits for it")
	}
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
		wg.Go(func() { (&server{response: answerSize("bench")}).echo(near); near.Close() })
		wg.Go(func() { _, _ = io.Copy(far, c); far.Close() })
		answer := make([]byte, answerSize("bench"))
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
