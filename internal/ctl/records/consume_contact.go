package records

import (
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// contact remembers how the last fetch ended: the client asks again for ever and reports
// nothing of it. Its methods are called by the client's goroutines.
type contact struct {
	mu  sync.Mutex
	err error
}

// OnBrokerConnect implements kgo.HookBrokerConnect. A connection alone is no answer.
func (c *contact) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		c.ended(err)
	}
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (c *contact) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key == int16(kmsg.Fetch) {
		c.ended(e.Err())
	}
}

func (c *contact) ended(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
}

// last is the error of the last fetch, nil for none.
func (c *contact) last() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// watchContact tells people when a reader that follows waits for a broker, and when it does
// no more. A group's member tells of its group, see failure.
func (r *reader) watchContact() {
	if !r.follow || r.group != "" {
		return
	}
	switch err := r.contact.last(); {
	case err != nil && !r.away:
		r.note("note: %v; waiting for the broker until it is interrupted", err)
		r.away = true
	case err == nil && r.away:
		r.note("note: the broker answers again")
		r.away = false
	}
}
