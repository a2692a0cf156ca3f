// Package txncases has the answers of Kafka 4.3 to transactional requests, as cases that run
// against any broker. Where chronik differs on purpose, a case has both answers.
//
// It speaks the protocol with bytes of its own, so that it can send what no client library sends:
// late requests, those of an older instance, requests of every version. It belongs to tests only.
package txncases

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Peer is a broker to ask. It must be the only one of its cluster and refuse no client anything.
type Peer struct {
	Address string // HOST:PORT
	// Kafka: it is Apache Kafka, which answers some requests otherwise than chronik on purpose.
	Kafka bool
	// Long includes cases that send tens of thousands of requests.
	Long bool
	// Kill ends the broker as SIGKILL does, and starts it again at the same address. Cases about
	// its death need it; without it they are not part of the table.
	Kill func(testing.TB)
}

// patience is how long a case waits for an expected event, and for one answer. It detects a hang
// and does not measure how long anything takes.
const patience = 2 * time.Minute

// kase is one case.
type kase struct {
	name string
	run  func(*world)
}

// Run asks p and compares every answer.
func Run(t *testing.T, p Peer) {
	t.Helper()
	cases := slices.Concat(answers(), zombies(), edges())
	if p.Long {
		cases = append(cases, long()...)
	}
	if p.Kill != nil {
		cases = append(cases, deaths()...)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := &world{T: t, peer: p, topicIDs: map[string][16]byte{}, prefix: fmt.Sprintf("%x-", rand.Uint32())}
			defer w.hangUp()
			c.run(w)
		})
	}
}

// world is the surroundings of one case.
type world struct {
	*testing.T
	peer        Peer
	conn        net.Conn
	correlation int32
	prefix      string // of the names of this case
	topicIDs    map[string][16]byte
}

// is compares an answer with the expected one.
func (w *world) is(what string, got, want any) {
	w.Helper()
	if g, s := fmt.Sprint(got), fmt.Sprint(want); g != s {
		w.Errorf("%s: %s, expected %s", what, g, s)
	}
}

// oneOf compares an answer with those that are allowed.
func (w *world) oneOf(what string, got any, want ...string) {
	w.Helper()
	for _, s := range want {
		if fmt.Sprint(got) == s {
			return
		}
	}
	w.Errorf("%s: %v, expected one of %s", what, got, strings.Join(want, ", "))
}

// differs returns the answer that this broker must give if chronik differs from Kafka on purpose.
func (w *world) differs(kafka, chronik string) string {
	if w.peer.Kafka {
		return kafka
	}
	return chronik
}

// until polls until ok returns true.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	for begun := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > patience {
			w.Fatalf("never: %s", what)
		}
	}
}

// kill ends the broker and starts it again.
func (w *world) kill() {
	w.Helper()
	w.hangUp()
	w.peer.Kill(w.T)
}

func (w *world) hangUp() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// send writes a request. Its answer may remain unread if the connection is closed then.
func (w *world) send(req kmsg.Request, version int16) {
	w.Helper()
	for begun := time.Now(); w.conn == nil; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", w.peer.Address)
		if err == nil {
			w.conn = conn
			break
		}
		if time.Since(begun) > patience {
			w.Fatal(err)
		}
	}
	req.SetVersion(version)
	w.correlation++
	if err := w.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		w.Fatal(err)
	}
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("cases")).AppendRequest(nil, req, w.correlation)
	if _, err := w.conn.Write(frame); err != nil {
		w.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
}

// ask sends a request and returns its answer.
func ask[T kmsg.Response](w *world, req kmsg.Request, version int16) T {
	w.Helper()
	w.send(req, version)
	fail := func(err error) { w.Helper(); w.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), version, err) }
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		fail(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.conn, body); err != nil {
		fail(err)
	}
	body = body[4:] // the correlation id
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if resp.IsFlexible() {
		body = body[1:] // no tagged fields in the header
	}
	if err := resp.ReadFrom(body); err != nil {
		fail(err)
	}
	answer, ok := resp.(T)
	if !ok {
		w.Fatalf("%s v%d: the answer is a %T", kmsg.NameForKey(req.Key()), version, resp)
	}
	return answer
}

// code returns the name of an error code.
func code(c int16) string {
	if c == 0 {
		return none
	}
	if err := kerr.TypedErrorForCode(c); err != nil {
		return err.Message
	}
	return fmt.Sprint(c)
}

// none is the name of success.
const none = "NONE"
