package network

import (
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/view"
)

// testQuotas has a quota of bytes for each client id, and one for a single one.
type testQuotas struct{ *quota.Keeper }

func (q testQuotas) Turn(_ *Session, clientID string, _, _ int16, size int) quota.Turn {
	return q.Tenant(nil, "u", clientID).Turn(quota.Produced, int64(size))
}

func quotasOf(clock func() time.Duration, rate float64) testQuotas {
	q := quota.Quota{Entity: quota.Entity{Client: quota.Any()}}
	q.Limits[quota.Produced] = rate
	k := quota.NewKeeper(clock)
	k.Set(quota.Compile(slices.Values([]quota.Quota{q})))
	return testQuotas{k}
}

func (q testQuotas) debt(clientID string) time.Duration {
	return q.Tenant(nil, "u", clientID).Wait(quota.Produced)
}

// charge brings a client into debt.
func (q testQuotas) charge(clientID string, n int64) {
	q.Tenant(nil, "u", clientID).Charge(quota.Produced, n)
}

// A request of a client in debt waits on a new connection, too, and holds no memory meanwhile.
// Other clients do not wait. The client id decides, however long and in whatever pieces it comes.
func TestARequestInDebtWaitsForItsTurn(t *testing.T) {
	for name, id := range map[string]string{"a short name": "debtor", "none": "", "a long name": strings.Repeat("d", 5000)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				q := quotasOf(func() time.Duration { return time.Since(began) }, 1000)
				f := start(t, echo, func(o *Options) { o.Quotas = q })
				defer f.end(t)
				q.charge(id, 60_250)
				c, other := f.pipe.dial(), f.pipe.dial()
				defer c.Close()
				defer other.Close()
				request := frameOf(id, protocol.KeyProduce, 3, 1, make([]byte, 10_000))
				go func() {
					for len(request) > 0 {
						n := min(len(request), 7)
						if _, err := c.Write(request[:n]); err != nil {
							return
						}
						request = request[n:]
					}
				}()
				other.send(t, frameOf("other", keyMetadata, 1, 1, nil))
				other.want(t, 1)
				synctest.Wait()
				if time.Since(began) > time.Second {
					t.Errorf("another client waited for %v", time.Since(began))
				}
				if s := f.Stats(); s.Produce.Used != 0 || s.ProduceArriving.Frames != 0 {
					t.Errorf("a request that waits holds memory: %+v", s)
				}
				if w := f.Waits(10).List; len(w) != 1 || w[0].Steps[0].Step != view.StepThrottle {
					t.Errorf("it waits for %+v", w)
				}
				c.want(t, 1)
				if waited := time.Since(began); waited != time.Minute {
					t.Errorf("the request waited for %v", waited)
				}
			})
		})
	}
}

// A request that waits longer than an answer may ask for is dropped if its client has hung up, with
// what it was charged: it was most probably sent again.
func TestARequestWhoseClientHasGoneGivesItsTurnBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		q := quotasOf(func() time.Duration { return time.Since(began) }, 1000)
		var served atomic.Int32
		f := start(t, func(r *Request) { served.Add(1); echo(r) }, func(o *Options) { o.Quotas = q })
		defer f.end(t)
		for _, x := range []struct {
			name   string
			debt   time.Duration
			served int32
		}{{"soon", 20 * time.Second, 1}, {"late", 45 * time.Second, 0}} {
			served.Store(0)
			q.charge(x.name, 250+x.debt.Milliseconds())
			c := f.pipe.dial()
			c.sendAsync(frameOf(x.name, keyMetadata, 1, 1, make([]byte, 500)))
			synctest.Wait()
			f.hangUp()
			time.Sleep(quota.MaxWait + 2*turnLook)
			if got := served.Load(); got != x.served {
				t.Errorf("%s: %d requests were served", x.name, got)
			}
			_ = c.Close()
			if left := q.debt(x.name); x.served == 0 && left != x.debt-quota.MaxWait-2*turnLook {
				t.Errorf("%s: a debt of %v is left", x.name, left)
			}
		}
	})
}

// hangUp makes the server notice that all clients have closed their sides.
func (f *fixture) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.span.hungUp()
	}
}

// A request that does not arrive costs nothing.
func TestARequestThatDoesNotArriveIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quotasOf(func() time.Duration { return time.Hour }, 1000)
		f := start(t, echo, func(o *Options) { o.Quotas = q })
		defer f.end(t)
		c := f.pipe.dial()
		c.send(t, frameOf("c", protocol.KeyProduce, 3, 1, make([]byte, 100_000))[:200])
		synctest.Wait()
		if q.debt("c") == 0 {
			t.Error("it is not charged while it arrives")
		}
		_ = c.Close()
		synctest.Wait()
		if d := q.debt("c"); d != 0 {
			t.Errorf("a debt of %v", d)
		}
	})
}

// A poller leaves a request in debt to the reader, which waits.
func TestAPolledConnectionInDebtWaits(t *testing.T) {
	var clock atomic.Int64
	clock.Store(int64(time.Hour))
	q := quotasOf(func() time.Duration { return time.Duration(clock.Load()) }, 1000)
	f := start(t, echo, func(o *Options) { o.Quotas = q })
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	size := int64(len(frameOf("c", protocol.KeyProduce, 3, 1, nil)) - 4)
	for i := range int32(5) {
		c.send(t, frameOf("c", protocol.KeyProduce, 3, i, nil))
		c.want(t, i)
	}
	q.charge("c", 2000)
	c.send(t, frameOf("c", protocol.KeyProduce, 3, 5, nil))
	for throttled := false; !throttled; runtime.Gosched() {
		w := f.Waits(10).List
		throttled = len(w) > 0 && w[0].Steps[0].Step == view.StepThrottle
	}
	if want := time.Duration(2000-250+6*size) * time.Millisecond; q.debt("c") != want {
		t.Errorf("a debt of %v, want %v", q.debt("c"), want)
	}
	clock.Add(int64(time.Minute))
	c.want(t, 5)
}
