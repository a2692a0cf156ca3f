package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/storage"
)

// beating is a log directory as the pulse looks at it.
type beating interface {
	Pulse() storage.Pulse
	Err() error
}

// pulse finds out whether a broker that serves still makes progress, for a
// supervisor that restarts it where it does not. It is used by one goroutine.
//
// It looks for what a restart mends: a broker whose listener, handlers or
// journals hang. What a restart does not mend is no reason to be killed: a log
// directory that failed says so itself and is not looked at, and one directory
// whose disk hangs does not take the others down.
type pulse struct {
	address string    // of the first listener
	dirs    []beating // never changes
	last    []uint64  // progress at the last look, by directory

	conn   net.Conn // nil where there is none
	number int32    // of the last request
}

func newPulse(address string, dirs []beating) pulse {
	p := pulse{address: address, dirs: dirs, last: make([]uint64, len(dirs))}
	for i, d := range dirs {
		p.last[i] = d.Pulse().Progress
	}
	return p
}

// beat returns nil where the broker made progress since the last call, and what
// hangs otherwise. The context bounds it, unless a lock of the broker is never
// given back: then it does not return, which tells the same.
func (p *pulse) beat(ctx context.Context) error {
	if err := p.moving(); err != nil {
		return err
	}
	return p.ask(ctx)
}

// moving is an error where records wait in every directory that works and nothing was written or
// synced since the last call.
func (p *pulse) moving() error {
	working, stuck := 0, 0
	for i, d := range p.dirs {
		now := d.Pulse()
		if d.Err() == nil {
			working++
			if now.Waiting && now.Progress == p.last[i] {
				stuck++
			}
		}
		p.last[i] = now.Progress
	}
	if stuck > 0 && stuck == working {
		return fmt.Errorf("records wait in all %d log directories that work, and no write or fdatasync ends", working)
	}
	return nil
}

// ask sends a request through the first listener and waits for its answer: for
// the metadata of no topics, which every handler's way leads past and which
// costs next to nothing. A connection that the broker closes, because there are
// too many or it was idle, is an answer too: somebody accepted it.
func (p *pulse) ask(ctx context.Context) error {
	if p.conn != nil {
		if err := p.exchange(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		p.close()
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("the broker's own connection to %s: %w", p.address, err)
	}
	p.conn = conn
	err = p.exchange(ctx)
	if err == nil {
		return nil
	}
	p.close()
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return fmt.Errorf("the broker's own request to %s: %w", p.address, err)
}

// largest bounds the answer to a request for no topics, in bytes.
const largest = 1 << 20

func (p *pulse) exchange(ctx context.Context) error {
	if err := p.conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	conn := p.conn
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	p.number++
	request := kmsg.NewPtrMetadataRequest()
	request.Version, request.Topics = 4, []kmsg.MetadataRequestTopic{}
	b := kmsg.NewRequestFormatter(kmsg.FormatterClientID("chronikd watchdog")).AppendRequest(nil, request, p.number)
	if _, err := p.conn.Write(b); err != nil {
		return err
	}
	var head [8]byte // size and correlation id
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return err
	}
	size, number := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if size < 4 || size > largest || number != uint32(p.number) {
		return fmt.Errorf("an answer of %d bytes to request %d, and not to %d", size, number, p.number)
	}
	_, err := io.CopyN(io.Discard, p.conn, int64(size)-4)
	return err
}

// close gives the connection back; the next beat makes another.
func (p *pulse) close() {
	if p.conn != nil {
		_ = p.conn.Close() // nothing is expected from it any more
		p.conn = nil
	}
}
