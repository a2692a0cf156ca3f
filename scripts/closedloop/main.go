// Command closedloop measures how many requests a broker answers to clients
// that each send one record and wait for its answer: N connections, raw prebuilt
// Produce requests, so that the client is not the limit. With -echo it measures a
// bare TCP echo of the same sizes instead, which is what the machine can do; with
// -echo-server it is that echo.
//
//	closedloop -brokers 127.0.0.1:9092 -topic t -c 128 -d 10s -warmup 3s -size 256 -acks all
//
// A response counts only with error code 0 and a valid offset.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
)

type options struct {
	brokers, topic, acks, echo, server string
	conns, size, partitions            int
	duration, warmup                   time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.brokers, "brokers", "127.0.0.1:9092", "broker to measure")
	flag.StringVar(&o.topic, "topic", "closedloop", "topic, made if it is missing")
	flag.IntVar(&o.partitions, "partitions", 1, "partitions to spread the connections over")
	flag.IntVar(&o.conns, "c", 128, "connections")
	flag.IntVar(&o.size, "size", 256, "bytes of the record's value")
	flag.DurationVar(&o.duration, "d", 10*time.Second, "measured time")
	flag.DurationVar(&o.warmup, "warmup", 2*time.Second, "time before it")
	flag.StringVar(&o.acks, "acks", "all", "1 or all")
	flag.StringVar(&o.echo, "echo", "", "measure the echo server at this address instead")
	flag.StringVar(&o.server, "echo-server", "", "be an echo server at this address")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "closedloop:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.server != "" {
		return serveEcho(o.server)
	}
	addr := o.echo
	if addr == "" {
		if err := makeTopic(o); err != nil {
			return err
		}
		addr = o.brokers
	}
	return measure(o, addr)
}

func makeTopic(o options) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.brokers))
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(context.Background(), int32(o.partitions), 1, nil, o.topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// request is one Produce v9 request, with its length.
func request(o options, partition int32) []byte {
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(time.Now().UnixMilli(), nil, make([]byte, o.size), nil)
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	req := kmsg.NewProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30000
	if o.acks == "1" {
		req.Acks = 1
	}
	t := kmsg.NewProduceRequestTopic()
	t.Topic = o.topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("closedloop")).AppendRequest(nil, &req, 1)
}

func measure(o options, addr string) error {
	var count atomic.Int64
	var on atomic.Bool
	stop := make(chan struct{})
	hists := make([]*hdrhistogram.Histogram, o.conns)
	errs := make(chan error, o.conns)
	var wg sync.WaitGroup
	for i := range o.conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		hists[i] = hdrhistogram.New(1, 60_000_000, 3)
		req := request(o, int32(i%o.partitions))
		wg.Go(func() {
			defer c.Close()
			if err := loop(c, req, o, hists[i], &count, &on, stop); err != nil {
				errs <- err
			}
		})
	}
	time.Sleep(o.warmup)
	on.Store(true)
	begin, from := time.Now(), count.Load()
	select {
	case err := <-errs:
		return err
	case <-time.After(o.duration):
	}
	n, took := count.Load()-from, time.Since(begin)
	on.Store(false)
	close(stop)
	wg.Wait()
	all := hdrhistogram.New(1, 60_000_000, 3)
	for _, h := range hists {
		all.Merge(h)
	}
	fmt.Printf("%8.0f req/s  p50 %.3f ms  p90 %.3f  p99 %.3f  p99.9 %.3f  max %.3f  (%d requests with the warm-up)\n", float64(n)/took.Seconds(),
		ms(all.ValueAtQuantile(50)), ms(all.ValueAtQuantile(90)), ms(all.ValueAtQuantile(99)), ms(all.ValueAtQuantile(99.9)), ms(all.Max()), count.Load())
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func ms(us int64) float64 { return float64(us) / 1000 }

func loop(c net.Conn, req []byte, o options, h *hdrhistogram.Histogram, count *atomic.Int64, on *atomic.Bool, stop chan struct{}) error {
	buf := make([]byte, 4096)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		begin := time.Now()
		if _, err := c.Write(req); err != nil {
			return err
		}
		if err := answer(c, buf, o); err != nil {
			return err
		}
		count.Add(1)
		if on.Load() {
			if err := h.RecordValue(time.Since(begin).Microseconds()); err != nil {
				return err
			}
		}
	}
}

// answer reads a response and checks it: an echo's is 60 bytes long, as long as
// a broker's.
func answer(c net.Conn, buf []byte, o options) error {
	got := 0
	want := 4
	for got < want {
		n, err := c.Read(buf[got:])
		if err != nil {
			return err
		}
		got += n
		if got >= 4 {
			want = 4 + int(binary.BigEndian.Uint32(buf))
		}
	}
	if o.echo != "" {
		return nil
	}
	// correlation id 4, tags 1, topics 1, name 1+n, partitions 1, index 4, error 2, base offset 8
	at := 4 + 4 + 1 + 1 + 1 + len(o.topic) + 1 + 4
	code, offset := int16(binary.BigEndian.Uint16(buf[at:])), int64(binary.BigEndian.Uint64(buf[at+2:]))
	if code != 0 || offset < 0 {
		return fmt.Errorf("produce failed: %w (offset %d)", kerr.ErrorForCode(code), offset)
	}
	return nil
}

// serveEcho reads frames and answers each with a short one: a goroutine per
// connection and nothing else.
func serveEcho(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			buf, out := make([]byte, 64<<10), make([]byte, 64)
			binary.BigEndian.PutUint32(out, 60)
			for {
				if _, err := io.ReadFull(c, buf[:4]); err != nil {
					return
				}
				if _, err := io.ReadFull(c, buf[:binary.BigEndian.Uint32(buf)]); err != nil {
					return
				}
				if _, err := c.Write(out); err != nil {
					return
				}
			}
		}()
	}
}
