package ctl_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// proxy connects each client of a listener with a broker, and calls forward for what they send.
func proxy(t *testing.T, l net.Listener, broker string, forward func(from, to net.Conn)) {
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", broker)
			if err != nil {
				_ = from.Close()
				continue
			}
			t.Cleanup(func() { _, _ = from.Close(), to.Close() })
			forward(from, to)
		}
	}()
}

// stuck is a proxy that forwards a broker's answers only for some APIs, like a broker that hangs
// while a command is running.
func stuck(t *testing.T, answered ...int16) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	b := chronik.StartTest(t,
		chronik.Options{Settings: map[string]string{"advertise": l.Addr().String(), "group.initial.rebalance.delay.ms": "0"}})
	hangs := new(atomic.Bool)
	proxy(t, l, b.Addr(), func(from, to net.Conn) {
		k := &asked{answered: answered, hangs: hangs}
		go func() { _ = k.copy(to, from, k.request) }()
		go func() { _ = k.copy(from, to, k.response) }()
	})
	for _, line := range []string{"topic create a", "produce a", "consume a --group g"} {
		if code, errs := runAt(t.Context(), b.Addr(), line); code != 0 {
			t.Fatalf("%s: %s", line, errs)
		}
	}
	hangs.Store(true)
	return l.Addr().String()
}

// runAt runs a command line against a broker, with one line as input.
func runAt(ctx context.Context, broker, line string) (code int, errs string) {
	var out, err bytes.Buffer
	code = ctl.Main(ctx, strings.Fields(line), version, ctl.Streams{In: strings.NewReader("x\n"), Out: &out, Err: &err,
		Getenv: func(name string) string {
			return map[string]string{"CHRONIK_BROKERS": broker, "HOME": "/nowhere"}[name]
		}})
	return code, err.String()
}

// asked holds the requests of a connection that have not been answered yet.
type asked struct {
	answered []int16
	hangs    *atomic.Bool // otherwise all are passed
	mu       sync.Mutex
	due      []int16
}

// request records the API of a request.
func (a *asked) request(frame []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = append(a.due, int16(binary.BigEndian.Uint16(frame)))
	return true
}

// response reports whether to forward the next answer. Answers come in the order of requests.
func (a *asked) response([]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 {
		return false
	}
	key := a.due[0]
	a.due = a.due[1:]
	return !a.hangs.Load() || slices.Contains(a.answered, key)
}

// copy forwards the frames that pass accepts.
func (*asked) copy(to io.Writer, from io.Reader, pass func([]byte) bool) error {
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(from, head); err != nil {
			return err
		}
		frame := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(from, frame); err != nil {
			return err
		}
		if pass(frame) {
			if _, err := to.Write(append(head, frame...)); err != nil {
				return err
			}
		}
	}
}

// askNoBroker are commands that ask no broker, or need none that answers.
var askNoBroker = []string{"api-versions", "broker list", "cert show", "completion bash", "completion fish", "completion powershell",
	"completion zsh", "context delete", "context list", "context rename", "context set", "context show", "context use",
	"debug waits", "log dump", "log repair",
	"log verify", "profile list", "profile show", "version"}

// Every command exits with an error if its broker stops answering while the command is running.
// --timeout applies to each request; some commands send several.
func TestEveryCommandEndsWhereABrokerHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for timeouts")
	}
	const apiVersions, metadata, findCoordinator, initProducer, listOffsets = 18, 3, 10, 22, 2
	at := stuck(t, apiVersions, metadata, findCoordinator, initProducer)
	later := stuck(t, apiVersions, metadata, listOffsets) // where records are read
	var all sync.WaitGroup
	lines := []string{
		"topic list -o wide", "topic describe a", "topic describe --regex .*", "topic create b", "topic alter a --config retention.ms=7d",
		"topic add-partitions a --add 1",
		"topic trim a --before 1 --yes", "topic delete a --yes", "config get topic a", "config describe broker 1",
		"config set topic a retention.ms=7d",
		"config set broker default log.retention.ms=7d", "config unset topic a retention.ms", "config list",
		"group list", "group describe g",
		"group describe --all",
		"group reset g --to-latest --yes", "group delete g --yes", "group delete-offsets g --topic a --yes", "group export g",
		"group export --all",
		"produce a", "produce a --acks 1", "consume a", "consume a --count 1", "consume a --group g",
		"consume a --group g --group-protocol consumer",
		"broker describe 1", "cluster describe", "cluster health", "profile explain a", "top --interval 100ms",
		"debug bundle --interval 100ms --file " + filepath.Join(t.TempDir(), "b.tar.gz"),
		"acl list", "acl explain u read topic:a", "acl add u read topic:a", "acl remove u read topic:a --yes",
		"user list", "user add u", "user set-password u", "user remove u --yes",
		"quota list", "quota explain u", "quota set producer_byte_rate=1 --user u", "quota remove --user u --yes",
		"txn list", "txn describe t", "txn abort t --yes", "txn find-hanging",
		"snapshot list", "snapshot describe 1", "snapshot create", "snapshot verify 1", "snapshot delete 1 --yes",
		"broker drain 1 --yes", "broker fill 1 --yes", "broker rebalance --yes", "broker move-logs 1 --yes", "broker unregister 2 --yes",
		"broker maintain 1 --yes", "topic elect a --yes", "topic move a 1 --yes", "cluster feature share.version=1 --yes",
		"group peek g a:0", "group release g a:0 0 --yes", "group reject g a:0 0 --yes",
		"LATER consume a", "LATER consume a --count 1", "LATER topic list -o wide", "LATER topic delete a --yes",
	}
	for _, path := range ctl.Unlisted(slices.Concat(lines, askNoBroker)) {
		t.Errorf("no line calls %s", path)
	}
	for _, line := range lines {
		line, reading := strings.CutPrefix(line, "LATER ")
		at := at
		if reading {
			at = later
		}
		all.Go(func() { // not a parallel test: these wait, and go test runs as many tests as there are processors
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			code, errs := runAt(ctx, at, line+" --timeout 1s")
			if ctx.Err() != nil {
				t.Errorf("%s did not end: %s", line, errs)
			} else if code == 2 || code == 0 && line != "cluster describe" && line != "topic elect a --yes" { // they need metadata only
				t.Errorf("%s ended with %d: %s", line, code, errs)
			}
		})
	}
	all.Wait()
}

// A topic whose creation gets no answer may be created later. The error says so, because a second
// creation would be refused.
func TestACreationWithoutAnAnswerMayStillBeDone(t *testing.T) {
	const apiVersions, metadata = 18, 3
	code, errs := runAt(t.Context(), stuck(t, apiVersions, metadata), "topic create b --timeout 100ms")
	if code != 1 || !strings.HasPrefix(errs, "chronikctl: create b: ") ||
		!strings.HasSuffix(errs, "; it may still be created: chronikctl topic describe b shows it if it is; otherwise try again\n") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// The broker at the address of --brokers answers cluster health, not another one that the client
// finds in the metadata: an operator names the broker whose findings do not reach the others.
func TestTheBrokerThatIsNamedReportsItsHealth(t *testing.T) {
	const describeCluster = 60
	b := chronik.StartTest(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	reported := new(atomic.Bool)
	proxy(t, l, b.Addr(), func(from, to net.Conn) { // in the metadata is the broker's own address
		go func() { _, _ = io.Copy(from, to) }()
		go func() {
			_ = new(asked).copy(to, from, func(frame []byte) bool {
				if binary.BigEndian.Uint16(frame) == describeCluster {
					reported.Store(true)
				}
				return true
			})
		}()
	})
	if _, errs := runAt(t.Context(), l.Addr().String(), "cluster health --admin off"); !reported.Load() {
		t.Errorf("another broker reports: %s", errs)
	}
}
