package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A broker is gone if its machine closed a connection and refuses the next one. A firewall does
// only the second, and the broker behind it has a lease.
func TestARefusedDialAloneProvesNothing(t *testing.T) {
	target := link.Target{Address: "b:1", Node: 2, Member: 22}
	peer := link.Hello{Identity: link.Identity{Node: 2, Member: 22}}
	event := func(kind link.EventKind, err error) link.Event {
		return link.Event{Kind: kind, Lane: link.Meta, Dialed: true, Target: target, Peer: peer, Err: err}
	}
	accepted := event(link.Broken, io.EOF)
	accepted.Dialed, accepted.Target = false, link.Target{}
	data := event(link.Broken, io.EOF)
	data.Lane = link.Data
	refused := event(link.Refused, syscall.ECONNREFUSED)
	connected := event(link.Connected, nil)
	eof := event(link.Broken, fmt.Errorf("read from a broker: %w", io.EOF))
	for name, x := range map[string]struct {
		events []link.Event
		want   int32 // of the last one
	}{
		"killed":                             {[]link.Event{connected, eof, refused}, 2},
		"the end of the accepted connection": {[]link.Event{connected, accepted, refused}, 2},
		"a firewall":                         {[]link.Event{connected, event(link.Broken, syscall.ECONNRESET), refused}, -1},
		"a replica stream ended":             {[]link.Event{connected, data, refused}, -1},
		"it was back in between":             {[]link.Event{connected, eof, connected, refused}, -1},
		"not refused":                        {[]link.Event{connected, eof, event(link.Unreachable, io.EOF)}, -1},
		"refused again":                      {[]link.Event{connected, eof, refused, refused}, 2},
		"never connected":                    {[]link.Event{refused}, -1},
	} {
		b, gone := newBook(nil, nil, nil), int32(-1)
		for _, e := range x.events {
			gone = b.notify(e)
		}
		if gone != x.want {
			t.Errorf("%s: node %d, want %d", name, gone, x.want)
		}
		b.heard(2)
		if gone := b.notify(refused); gone != -1 {
			t.Errorf("%s: node %d is gone after it was heard", name, gone)
		}
	}
}

// The address of a seed shows which broker was there.
func TestASeedThatIsGone(t *testing.T) {
	b := newBook([]string{"b:1"}, nil, nil)
	e := link.Event{Kind: link.Connected, Lane: link.Meta, Dialed: true, Target: link.Target{Address: "b:1", Node: -1}}
	e.Peer.Node = 2
	b.notify(e)
	e.Kind, e.Err = link.Broken, io.EOF
	b.notify(e)
	e.Kind, e.Peer = link.Refused, link.Hello{}
	if gone := b.notify(e); gone != 2 {
		t.Errorf("node %d", gone)
	}
}

// A seed that refuses this broker for good says why. One that is overloaded is asked again.
func TestASeedThatRefuses(t *testing.T) {
	b := newBook([]string{"b:1"}, func() uint64 { return 1 }, nil)
	e := link.Event{Kind: link.Rejected, Lane: link.Meta, Dialed: true, Target: link.Target{Address: "b:1", Node: -1}}
	for _, x := range []struct {
		reason link.Reason
		want   string
	}{{link.Overloaded, ""}, {link.NotAdmitted, ""}, {link.Removed, "refused by the peer: because; do this"}} {
		e.Err = fmt.Errorf("handshake: %w", &link.Mismatch{Reason: x.reason, Cause: "because", Remedy: "do this", ByPeer: true})
		b.notify(e)
		if _, got, _ := b.AskSeed(t.Context(), "b:1", 0, nil); got != x.want {
			t.Errorf("reason %d: %q, want %q", x.reason, got, x.want)
		}
	}
	e.Kind, e.Err = link.Connected, nil
	b.notify(e)
	if _, got, _ := b.AskSeed(t.Context(), "b:1", 0, nil); got != "" {
		t.Errorf("after a connection: %q", got)
	}
}

// A seed of another cluster is wrong, and so is one that leads to the same broker as another. One
// whose broker is down is not, nor is one where nothing has been found yet.
func TestWrongSeedsAreKnown(t *testing.T) {
	b := newBook([]string{"a:1", "b:1", "c:1", "d:1"}, func() uint64 { return 1 }, nil)
	b.seeds[0].itself = true
	to := func(kind link.EventKind, address string, member uint64, err error) {
		e := link.Event{Kind: kind, Lane: link.Meta, Dialed: true, Target: link.Target{Address: address, Node: -1}, Err: err}
		e.Peer.Node, e.Peer.Member = int32(member), member
		b.notify(e)
	}
	to(link.Connected, "b:1", 2, nil)
	to(link.Refused, "b:1", 0, syscall.ECONNREFUSED)
	to(link.Connected, "c:1", 2, nil)
	to(link.Rejected, "d:1", 0, &link.Mismatch{Reason: link.WrongCluster, Cause: "because"})
	b.registered = []listed{{Member: membership.Member{Node: 2, ID: 2, Address: "b:1"}}}
	got := b.wrongSeeds()
	if len(got) != 2 || got[0].Address != "c:1" || got[0].Err != "it leads to the same broker as b:1" || got[1].Address != "d:1" ||
		got[1].Err != "because" || got[1].Since.IsZero() {
		t.Errorf("%+v", got)
	}
	to(link.Connected, "d:1", 4, nil)
	if got := b.wrongSeeds(); len(got) != 1 {
		t.Errorf("after a connection: %+v", got)
	}
}

// A question to a seed to which no connection can be made is answered with the reason.
func TestASeedThatIsNotReachedIsNamedWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links, err := link.New(link.Options{
			Identity: func() link.Identity { return link.Identity{Node: 3, Member: 33} }, Handshake: time.Hour,
			Dial: func(context.Context, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED },
		})
		must.OK(t, err)
		defer links.Close()
		b := newBook([]string{"a:1"}, func() uint64 { return 33 }, nil)
		b.start(links, "c:1")
		defer b.close()
		time.Sleep(time.Second)
		answers := membership.Ask(t.Context(), b, []string{"a:1"})
		if want := syscall.ECONNREFUSED.Error(); answers[0].Unconnected != want {
			t.Errorf("%+v, want %q", answers[0], want)
		}
	})
}

// What a broker has registered is dialed although a seed leads to it, and an address at which
// another member answers leads nowhere.
func TestAWrongAddressIsSeenAlthoughASeedLeadsToTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links, err := link.New(link.Options{
			Identity: func() link.Identity { return link.Identity{Node: 3, Member: 33} }, Handshake: time.Hour,
			Dial: func(ctx context.Context, address string) (net.Conn, error) {
				if address == "wrong:1" {
					return nil, syscall.ECONNREFUSED
				}
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		must.OK(t, err)
		defer links.Close()
		b := newBook([]string{"a:1", "b:1", "c:1"}, func() uint64 { return 33 }, nil)
		b.start(links, "c:1")
		defer b.close()
		for i, node := range []int32{1, 2} {
			e := link.Event{Kind: link.Connected, Lane: link.Meta, Dialed: true, Target: link.Target{Address: b.seeds[i].address, Node: -1}}
			e.Peer.Node, e.Peer.Member = node, uint64(node)*11
			b.notify(e)
		}
		at := map[int32]string{1: "a", 3: "c"}
		for _, x := range []struct{ host, want string }{
			{"b", ""}, {"wrong", "connection refused"}, {"b", ""}, {"a", "broker 1 answers there"},
			{"c", "it is the address of this broker"}, {"b", ""},
		} {
			at[2] = x.host
			time.Sleep(time.Minute)
			b.follow(registrations(t, at))
			registered := time.Now()
			time.Sleep(time.Second)
			list := b.unreached()
			if at := b.runsSince(2); !at.Equal(registered) {
				t.Errorf("at %s: runs since %v, want %v", x.host, at, registered)
			}
			switch {
			case x.want == "" && len(list) > 0:
				t.Errorf("at %s: %+v", x.host, list)
			case x.want != "" && (len(list) != 1 || list[0].Broker != 2 || list[0].Err != x.want):
				t.Errorf("at %s: %+v, want %q", x.host, list, x.want)
			}
		}
		same := time.Now()
		b.follow(registrations(t, at))
		if !b.runsSince(2).Before(same) || !b.runsSince(4).IsZero() {
			t.Errorf("run since %v and %v", b.runsSince(2), b.runsSince(4))
		}
	})
}

// A heartbeat names a broker when its session, whose length is a setting, would have ended.
func TestAHeartbeatNamesAnUnreachedBrokerAfterASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links, err := link.New(link.Options{
			Identity: func() link.Identity { return link.Identity{Node: 1, Member: 11} }, Handshake: time.Hour,
			Dial: func(context.Context, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED },
		})
		must.OK(t, err)
		defer links.Close()
		c := &Cluster{o: Options{Node: 1, Conf: configdef.Cluster{Session: 10 * time.Second}},
			book: newBook([]string{"a:1"}, func() uint64 { return 11 }, nil)}
		c.book.start(links, "a:1")
		defer c.book.close()
		brokers := map[int32]string{1: "a", 2: "b"}
		c.book.follow(registered(t, brokers, metadata.Fenced))
		time.Sleep(time.Hour) // what fails meanwhile does not count
		c.book.follow(registrations(t, brokers))
		runs := time.Now()
		time.Sleep(9 * time.Second)
		if early := c.reported(); len(early) > 0 {
			t.Errorf("before the end of a session, %v are named", early)
		}
		if list := c.unreached(); len(list) != 1 || !list[0].Since.Equal(runs) {
			t.Errorf("%+v, which runs since %v", list, runs)
		}
		time.Sleep(2 * time.Second)
		if late := c.reported(); !slices.Equal(late, []int32{2}) {
			t.Errorf("after a session, %v are named", late)
		}
	})
}

// registrations returns an image in which each broker N has registered with the member 11·N and a
// host for other brokers, and is active. Each calls that listener by a name of its own.
func registrations(t *testing.T, hosts map[int32]string) *metadata.Image {
	t.Helper()
	return registered(t, hosts, metadata.Active)
}

func registered(t *testing.T, hosts map[int32]string, is metadata.Liveness) *metadata.Image {
	t.Helper()
	var keys []metadata.KV
	for id, host := range hosts {
		b := metadata.Broker{Member: uint64(id) * 11, Incarnation: [16]byte{byte(id)},
			Listeners: []metadata.Endpoint{{Listener: fmt.Sprint("peers", id), Host: host, Port: 1},
				{Listener: "default", Host: "clients", Port: 1}}}
		state := metadata.BrokerState{Liveness: is, Incarnation: b.Incarnation}
		keys = append(keys, metadata.KV{Key: metadata.BrokerKey(id), Value: b.Encode(), ModRevision: 1},
			metadata.KV{Key: metadata.LivenessKey(id), Value: state.Encode(), ModRevision: 1})
	}
	img, err := metadata.Load(keys, 1)
	must.OK(t, err)
	return img
}
