package records

import (
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// contact records the result of the last fetch, because the client retries forever without
// reporting errors. The client's goroutines call its methods.
type contact struct {
	mu  sync.Mutex
	err error
}

// OnBrokerConnect implements kgo.HookBrokerConnect. It records failures only: a connection alone is
// not an answer.
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

// last returns the error of the last fetch, or nil.
func (c *contact) last() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// watchContact reports that a following reader waits for the broker, and that the broker is back.
// Group members report both in failure.
func (r *reader) watchContact() {
	if !r.follow || r.group != "" {
		return
	}
	switch err := r.contact.last(); {
	case err != nil && !r.lostContact:
		r.note("note: %v; waiting for the broker until interrupted", err)
		r.lostContact = true
	case err == nil && r.lostContact:
		r.note("note: the broker answers again")
		r.lostContact = false
	}
}
