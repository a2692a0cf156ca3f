package limits

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// Sizes of the echo server, in bytes.
const (
	largestFrame = 64 << 20
	firstBuffer  = 64 << 10
)

// answerTo returns the frame with which a broker answers a Produce request, version 9, for one
// partition of a topic. The echo server sends it with the correlation id of each request.
func answerTo(topic string) []byte {
	p := kmsg.NewProduceResponseTopicPartition()
	t := kmsg.NewProduceResponseTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	body := kmsg.NewPtrProduceResponse()
	body.Version, body.Topics = wire.MinProduce, append(body.Topics, t)
	frame := body.AppendTo(make([]byte, 4+4+1)) // length, correlation id, no tags
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// Serve responds to each frame (four bytes of length, big-endian, then as many bytes) on l's
// connections with the frame answer, until ctx ends. Each connection has a goroutine, which only
// reads the length, reads the rest and writes. Serve closes l.
func Serve(ctx context.Context, l net.Listener, answer []byte) error {
	s := &server{answer: answer, open: map[net.Conn]struct{}{}}
	stop := context.AfterFunc(ctx, func() { s.close(l) })
	defer stop()
	defer s.wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			s.close(l)
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept on %v: %w", l.Addr(), err)
		}
		if !s.add(c) {
			continue
		}
		s.wg.Go(func() {
			defer s.remove(c)
			s.echo(c)
		})
	}
}

// server holds the connections, so that they can be closed.
type server struct {
	answer []byte
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// add adds c, or closes it if the server has ended.
func (s *server) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *server) remove(c net.Conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

func (s *server) close(l net.Listener) {
	l.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		c.Close()
	}
}

// echo responds to frames until the connection ends. The response has the request's correlation id
// where Kafka's protocol has it (after API key and version in a request, first in a response), so
// that a client can match them.
func (s *server) echo(c net.Conn) {
	in, out := make([]byte, firstBuffer), slices.Clone(s.answer)
	for {
		if _, err := io.ReadFull(c, in[:4]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(in))
		if n > largestFrame {
			return
		}
		if n > len(in) {
			in = make([]byte, n)
		}
		if _, err := io.ReadFull(c, in[:n]); err != nil {
			return
		}
		if n >= 8 {
			copy(out[4:8], in[4:8])
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
