package shareleader

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// openFrom opens a session of a client at an address, on a connection of its own.
func openFrom(l *Leader, address string, member int) (*Session, *kerr.Error) {
	connections++
	return l.Session("g", fmt.Sprint(address, "-", member), OpenSession, Client{Connection: connections,
		From: netip.MustParsePrefix(address + "/32"), OnClose: func(func()) func() bool { return func() bool { return true } }})
}

// A client that takes all sessions, and uses them, gives some of them up for those of others. It
// takes none from them.
func TestOneOriginDoesNotKeepAllSessions(t *testing.T) {
	check(t, 1, func(w *world) string {
		l := w.leader().Leader
		for i := range 10 {
			if _, code := openFrom(l, "10.0.0.1", i); code != nil {
				return code.Message
			}
		}
		for i := range 5 {
			time.Sleep(time.Second)
			if _, code := openFrom(l, "10.0.0.2", i); code != nil {
				return fmt.Sprint("session ", i, " of another origin: ", code)
			}
		}
		_, more := openFrom(l, "10.0.0.2", 5)
		_, again := openFrom(l, "10.0.0.1", 0)
		return differ(more, kerr.ShareSessionLimitReached, again, kerr.ShareSessionLimitReached, len(l.sessions.byKey), 10,
			*l.sessions.of[netip.MustParsePrefix("10.0.0.1/32")], claim{5, 5 * (sessionBytes + 11)})
	}, func(o *Options) { o.Sessions = 10 })
}

// A client may name partitions that do not exist. The members of others get records and sessions
// although it names as many as it can.
func TestNamesDoNotTakeTheMemoryOfRecords(t *testing.T) {
	check(t, 1, func(w *world) string {
		l := w.leader().Leader
		other, code := openFrom(l, "10.0.0.2", 0)
		if code != nil || !other.Name([]Named{{w.key.Topic, w.key.Partition}}) {
			return "a partition cannot be named"
		}
		hostile, code := openFrom(l, "10.0.0.1", 0)
		if code != nil {
			return code.Message
		}
		named := int32(0)
		for hostile.Name([]Named{{[16]byte{9}, named}}) {
			named++
		}
		w.put(5, false)
		c := &consumer{w: w, b: w.leader(), id: "10.0.0.2-0", s: other}
		got := show(c.fetch(5))
		acked := c.ack(0, 4, window.Accept)
		other.End()
		hostile.End()
		return differ(got, "0-4:1", acked, "ok", l.sessions.bytes, int64(0), len(l.sessions.of), 0)
	}, func(o *Options) { o.Memory = coordinator.NewMemoryBudget(1 << 20) })
}
