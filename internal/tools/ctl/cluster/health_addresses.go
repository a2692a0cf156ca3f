package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// dialTime bounds the dial of an advertised address, and the wait for an answer there.
const dialTime = 3 * time.Second

// answers asks all brokers at the same time at the addresses that they advertise.
func (x *examination) answers(ctx context.Context) map[int32]error {
	within, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	silent := map[int32]error{}
	for _, b := range x.Meta.Brokers {
		all.Go(func() {
			req := kmsg.NewPtrApiVersionsRequest()
			req.ClientSoftwareName, req.ClientSoftwareVersion = "chronikctl", app.SoftwareVersion(x.a.Version)
			_, err := req.RequestWith(within, x.cl.Broker(int(b.NodeID)))
			if err != nil && within.Err() != nil && ctx.Err() == nil {
				err = x.a.Throttle.Explain(silentFor(dialTime))
			}
			mu.Lock()
			defer mu.Unlock()
			silent[b.NodeID] = err
		})
	}
	all.Wait()
	return silent
}

// silentFor is the error of a broker that did not answer for some time.
type silentFor time.Duration

func (e silentFor) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

// Unwrap returns what the client calls it.
func (silentFor) Unwrap() error { return context.DeadlineExceeded }

// addresses dials the advertised addresses: the bootstrap address may work even if they do not.
func (x *examination) addresses(ctx context.Context) {
	x.Examined("advertised addresses, dialed from here")
	for _, b := range x.Meta.Brokers {
		if x.about(b.NodeID) {
			continue // what is wrong with it explains why it cannot be dialed
		}
		at := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		where := fmt.Sprintf("broker %d, %s", b.NodeID, at)
		if app.Loopback(b.Host) && !x.asksLoopback() {
			x.Add("advertise", health.Bad, where, "it advertises a loopback address, though it was reached at "+x.a.Settings.Seeds()[0],
				"set its advertised address (chronikd --advertise HOST:PORT) to one that clients can reach")
			continue
		}
		d := net.Dialer{Timeout: dialTime}
		c, err := d.DialContext(ctx, "tcp", at)
		if err != nil {
			x.Add("advertise", health.Bad, where, "the address that it advertises to clients cannot be dialed from here: "+err.Error(),
				"start the broker if it is down; otherwise set its advertised address (chronikd --advertise HOST:PORT) to one that clients can "+
					"reach, or open the route to it")
			continue
		}
		_ = c.Close() // nothing was sent
	}
}

func (x *examination) asksLoopback() bool {
	for _, at := range x.a.Settings.Seeds() {
		host, _, err := net.SplitHostPort(at)
		if err != nil {
			host = at
		}
		if !app.Loopback(host) {
			return false
		}
	}
	return true
}
