package supervise

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
)

// Dir is a log directory whose progress a pulse checks.
type Dir interface {
	Stalled() time.Duration
	Err() error
}

// pulse checks whether a serving broker still makes progress, for a supervisor that restarts it if
// it does not. One goroutine uses it.
//
// It detects what a restart cures: a broker whose listener, handlers or journals hang. Other faults
// are no reason to kill it: a failed log directory reports its failure itself and is not checked,
// and one directory whose disk hangs does not take the others down.
type pulse struct {
	address  string // of the first listener
	dirs     []Dir
	patience time.Duration // a directory that stalls for so long hangs

	conn   net.Conn // nil if there is no connection
	number int32    // of the last request
}

func newPulse(address string, dirs []Dir, patience time.Duration) pulse {
	return pulse{address: address, dirs: dirs, patience: patience}
}

// beat returns nil if the broker makes progress, and otherwise an error that names what hangs. ctx
// bounds it, unless a lock of the broker is never released: then beat does not return, and the
// watchdog fires for lack of a keep-alive.
func (p *pulse) beat(ctx context.Context) error {
	if err := p.moving(); err != nil {
		return err
	}
	return p.request(ctx)
}

// moving returns an error if records wait in every working directory, and nothing was written or
// synced for as long as the pulse has patience.
func (p *pulse) moving() error {
	working, stuck := 0, 0
	for _, d := range p.dirs {
		stalled := d.Stalled()
		if d.Err() == nil {
			working++
			if stalled >= p.patience {
				stuck++
			}
		}
	}
	if stuck > 0 && stuck == working {
		return fmt.Errorf("records wait in all %d working log directories, and no write or fdatasync ends", working)
	}
	return nil
}

// request sends a request through the first listener and waits for its response. It asks for the
// metadata of no topics, which passes through all of the request path and costs next to nothing. A
// connection that the broker closes, because it has too many or because the connection was idle, is
// also a response: the broker accepted it.
func (p *pulse) request(ctx context.Context) error {
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

// largest is the maximum size in bytes of a response to a request for no topics.
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
		return fmt.Errorf("got a response of %d bytes to request %d, want request %d", size, number, p.number)
	}
	_, err := io.CopyN(io.Discard, p.conn, int64(size)-4)
	return err
}

// close closes the connection; the next beat opens a new one.
func (p *pulse) close() {
	if p.conn != nil {
		_ = p.conn.Close() // no data is expected from it
		p.conn = nil
	}
}
