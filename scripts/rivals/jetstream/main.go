// Command jetstream puts the closed loop of chronik-bench on a NATS server: each connection has one
// message in flight and waits for JetStream's acknowledgement. With -verify it reads the stream
// afterwards, and compares it with what was acknowledged.
//
//	jetstream -server nats://127.0.0.1:4222 -c 128 -s 256 -d 10s -warmup 2s -verify
//
// The last line of its output is JSON. The exit code is 1 if an acknowledged message is missing. It
// does not know where the server has its data, or what was done to them.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream  = "bench"
	subject = "bench"
	// header are the connection and the number of a message.
	header = 16
)

type options struct {
	server      string
	connections int
	size        int
	rate        float64 // of all connections; 0: as many as possible
	time        time.Duration
	warmup      time.Duration
	verify      bool
}

// client is one connection: the numbers that were acknowledged, and the times of those that the
// measured time has.
type client struct {
	acked []uint64
	times []time.Duration
}

type result struct {
	PerSecond float64 `json:"records_per_second"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	P999      float64 `json:"p99_9_us"`
	Acked     int     `json:"acknowledged,omitempty"`
	Missing   int     `json:"missing"`
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", nats.DefaultURL, "address of the server")
	flag.IntVar(&o.connections, "c", 128, "connections")
	flag.IntVar(&o.size, "s", 256, "bytes of a message")
	flag.Float64Var(&o.rate, "rate", 0, "messages per second of all connections; 0: as many as possible")
	flag.DurationVar(&o.time, "d", 10*time.Second, "measured time")
	flag.DurationVar(&o.warmup, "warmup", 2*time.Second, "time before it")
	flag.BoolVar(&o.verify, "verify", false, "read the stream afterwards")
	flag.Parse()
	r, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "jetstream:", err)
		os.Exit(2)
	}
	_ = json.NewEncoder(os.Stdout).Encode(r)
	if r.Missing > 0 {
		os.Exit(1)
	}
}

func run(o options) (result, error) {
	ctx := context.Background()
	nc, js, err := dial(o.server)
	if err != nil {
		return result{}, err
	}
	defer nc.Close()
	config := jetstream.StreamConfig{Name: stream, Subjects: []string{subject}, Storage: jetstream.FileStorage}
	if _, err := js.CreateOrUpdateStream(ctx, config); err != nil {
		return result{}, fmt.Errorf("create stream: %w", err)
	}
	begin := time.Now().Add(o.warmup)
	end := begin.Add(o.time)
	clients := make([]client, o.connections)
	failed := make([]error, o.connections)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { failed[i] = clients[i].produce(ctx, o, i, begin, end) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return result{}, err
	}
	var times []time.Duration
	r := result{}
	for _, c := range clients {
		times = append(times, c.times...)
		r.Acked += len(c.acked)
	}
	r.PerSecond = float64(len(times)) / o.time.Seconds()
	slices.Sort(times)
	r.P50, r.P99, r.P999 = quantile(times, 0.5), quantile(times, 0.99), quantile(times, 0.999)
	if o.verify {
		r.Missing, err = missing(ctx, js, clients)
	}
	return r, err
}

func dial(server string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(server, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}

// produce sends one message after the other. One that was not acknowledged is not sent again, since
// it may be in the stream.
func (c *client) produce(ctx context.Context, o options, id int, begin, end time.Time) error {
	nc, js, err := dial(o.server)
	if err != nil {
		return err
	}
	defer nc.Close()
	message := make([]byte, max(o.size, header))
	binary.BigEndian.PutUint64(message, uint64(id))
	pause := time.Duration(0)
	if o.rate > 0 {
		pause = time.Duration(float64(time.Second) * float64(o.connections) / o.rate)
	}
	next := time.Now().Add(pause * time.Duration(id) / time.Duration(o.connections))
	for n := uint64(0); ; n++ {
		if pause > 0 {
			time.Sleep(time.Until(next))
			next = next.Add(pause)
		}
		sent := time.Now()
		if !sent.Before(end) {
			return nil
		}
		binary.BigEndian.PutUint64(message[8:], n)
		limited, cancel := context.WithTimeout(ctx, time.Second)
		_, err := js.Publish(limited, subject, message, jetstream.WithRetryAttempts(0))
		cancel()
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		took := time.Since(sent)
		if c.acked = append(c.acked, n); !sent.Before(begin) {
			c.times = append(c.times, took)
		}
	}
}

// missing reads the whole stream, and returns how many acknowledged messages it does not have.
func missing(ctx context.Context, js jetstream.JetStream, clients []client) (int, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return 0, err
	}
	there := make([]map[uint64]bool, len(clients))
	for i := range there {
		there[i] = map[uint64]bool{}
	}
	if info.State.Msgs > 0 {
		consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
		if err != nil {
			return 0, err
		}
		messages, err := consumer.Messages()
		if err != nil {
			return 0, err
		}
		defer messages.Stop()
		for last := uint64(0); last < info.State.LastSeq; {
			m, err := messages.Next(jetstream.NextMaxWait(30 * time.Second))
			if err != nil {
				return 0, fmt.Errorf("read the stream up to %d of %d: %w", last, info.State.LastSeq, err)
			}
			meta, err := m.Metadata()
			if err != nil {
				return 0, err
			}
			last = meta.Sequence.Stream
			there[binary.BigEndian.Uint64(m.Data())][binary.BigEndian.Uint64(m.Data()[8:])] = true
		}
	}
	n := 0
	for i, c := range clients {
		for _, number := range c.acked {
			if !there[i][number] {
				n++
			}
		}
	}
	return n, nil
}

// quantile returns a quantile of sorted times, in microseconds.
func quantile(times []time.Duration, q float64) float64 {
	if len(times) == 0 {
		return math.NaN()
	}
	return float64(times[int(q*float64(len(times)-1))].Nanoseconds()) / 1000
}
