package limits

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/chronik-io/chronik/internal/cli"
)

// Sizes that the echo server reads and writes, in bytes with the four bytes of the length.
const (
	// DefaultResponse is about the size of a broker's response to a record.
	DefaultResponse = 64
	smallestFrame   = 8
	largestFrame    = 64 << 20
	firstBuffer     = 64 << 10
)

// Serve responds to each frame (four bytes of length, big-endian, then as many bytes) on l's
// connections with a frame of response bytes, until ctx ends. Each connection has a goroutine,
// which only reads the length, reads the rest and writes. Serve closes l.
func Serve(ctx context.Context, l net.Listener, response int) error {
	if response < smallestFrame || response > largestFrame {
		return errors.Join(cli.Usage("--response-size: %d is not between %d and %d", response, smallestFrame, largestFrame), l.Close())
	}
	s := &server{response: response, open: map[net.Conn]struct{}{}}
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
	response int
	wg       sync.WaitGroup

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
	in, out := make([]byte, firstBuffer), make([]byte, s.response)
	binary.BigEndian.PutUint32(out, uint32(s.response-4)) // bounded by largestFrame
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
