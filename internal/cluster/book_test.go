package cluster

import (
	"fmt"
	"io"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/link"
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
