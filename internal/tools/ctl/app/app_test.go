package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/cli/seeds"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/chronik"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRefusedSaysWhatWhyAndWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err     error
		message string
		want    string
	}{
		{kerr.TopicAlreadyExists, "Topic 'a' already exists.",
			"create a: TOPIC_ALREADY_EXISTS: Topic 'a' already exists; choose another name, or add --if-not-exists"},
		{kerr.LeaderNotAvailable, "", "create a: LEADER_NOT_AVAILABLE: no broker leads the partition now; an election takes a second " +
			"or two; chronikctl topic describe TOPIC and chronikctl cluster health say what an offline partition waits for"},
		{kerr.RequestTimedOut, "no leader", "create a: REQUEST_TIMED_OUT: no leader; try again; if it persists, chronikctl cluster " +
			"health says which brokers are missing"},
		{kerr.NetworkException, "", "create a: NETWORK_EXCEPTION: " + strings.TrimRight(kerr.NetworkException.Description, ".") +
			"; this is usually temporary: try again"},
		{kerr.ListenerNotFound, "", "create a: LISTENER_NOT_FOUND: " + strings.TrimRight(kerr.ListenerNotFound.Description, ".") +
			"; the partition's leader has no listener of the name of the one that was dialed: chronikctl cluster health names the brokers that lack it"},
		{context.DeadlineExceeded, "",
			"create a: context deadline exceeded; the broker did not answer in time: try again, or allow more with --timeout"},
		{errors.New("two\nlines."), "", "create a: two lines"},
	} {
		err := Refused("create a", c.err, c.message)
		if err.Error() != c.want || !errors.Is(err, c.err) {
			t.Errorf("got  %s\nwant %s", err, c.want)
		}
	}
}

// Every retriable error has a remedy. Another test checks that the commands in remedies exist.
func TestEveryRetriableErrorHasARemedy(t *testing.T) {
	for code := int16(1); code < 200; code++ {
		err := kerr.ErrorForCode(code)
		if k := (*kerr.Error)(nil); errors.As(err, &k) && k.Retriable && Remedy(err) == "" {
			t.Errorf("%v", err)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{ExitOK: nil, ExitFailed: errors.New("x"), ExitUsage: Usage("x"),
		ExitUnconfirmed: errors.Join(WithCode(ExitUnconfirmed, errors.New("x")))} {
		if got := ExitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestQuestion(t *testing.T) {
	for answer, code := range map[string]int{"yes\n": ExitOK, "Y\n": ExitOK, "yes": ExitOK, "no\n": ExitUnconfirmed, "\n": ExitUnconfirmed,
		"": ExitUnconfirmed, "yesterday\n": ExitUnconfirmed} {
		var errs bytes.Buffer
		a := New("v", Streams{In: strings.NewReader(answer), Err: &errs})
		var losses []string
		for i := range 25 {
			losses = append(losses, fmt.Sprint("loss ", i))
		}
		err := a.ask("delete 25 topics", "No way back.", losses)
		if ExitCode(err) != code ||
			!strings.Contains(errs.String(), "loss 19\n  … and 5 more\ndelete 25 topics? No way back. yes or no: ") {
			t.Errorf("%q: %v\n%s", answer, err, errs.String())
		}
	}
	a := New("v", Streams{In: strings.NewReader("yes\n"), Err: &bytes.Buffer{}})
	if err := a.Confirm("delete", Irreversible, nil); ExitCode(err) != ExitUnconfirmed {
		t.Errorf("Confirm asks although standard input is not a terminal: %v", err)
	}
	a.yes = true
	if err := a.Confirm("delete", Irreversible, nil); err != nil {
		t.Error(err)
	}
}

func TestWhenReadyWaitsForACoordinatorAndForNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := app(t, "--timeout", "2s")
		asked := 0
		err := a.WhenReady(t.Context(), func() error {
			if asked++; asked < 5 {
				return Refused("x", kerr.CoordinatorNotAvailable, "")
			}
			return nil
		})
		if err != nil || asked != 5 {
			t.Errorf("%v after %d", err, asked)
		}
		asked = 0
		if err := a.WhenReady(t.Context(), func() error { asked++; return kerr.GroupIDNotFound }); !errors.Is(err, kerr.GroupIDNotFound) ||
			asked != 1 {
			t.Errorf("%v after %d", err, asked)
		}
		if err := a.WhenReady(t.Context(), func() error { return kerr.NotCoordinator }); !errors.Is(err, kerr.NotCoordinator) {
			t.Errorf("%v", err)
		}
	})
}

// A read of a bounded connection ends at its deadline or at the limit, whichever is first.
func TestABoundedRead(t *testing.T) {
	for deadline, want := range map[time.Duration]time.Duration{time.Minute: time.Second, time.Millisecond: time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			begin := time.Now()
			c := &bounded{Conn: near, limit: time.Second, first: begin.Add(time.Hour), late: func(error) {}}
			must.OK(t, c.SetReadDeadline(begin.Add(deadline)))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != want {
				t.Errorf("%v after %v, want %v", err, time.Since(begin), want)
			}
			must.OK(t, c.SetReadDeadline(time.Time{}))
			go func() { _, _ = far.Write([]byte("x")) }()
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Errorf("without a deadline: %v", err)
			}
		})
	}
}

// A broker that accepts connections and never answers ends a command within --timeout, and the
// error does not say that it could not be dialed.
func TestABrokerThatHangs(t *testing.T) {
	connect := map[string]func(context.Context, *App) error{
		"for requests": func(ctx context.Context, a *App) error { _, err := a.Connect(ctx); return err },
		"for data":     func(ctx context.Context, a *App) error { _, err := a.Client(ctx); return err },
	}
	for limit, want := range map[string]time.Duration{"1s": time.Second, "200ms": 200 * time.Millisecond, "30s": dialTime} {
		for how, open := range connect {
			for _, encrypted := range []string{"--tls=false", "--tls"} {
				synctest.Test(t, func(t *testing.T) {
					a := app(t, "--timeout", limit, encrypted)
					a.dial = func(context.Context, string, string) (net.Conn, error) {
						near, far := net.Pipe()
						go func() { _, _ = io.Copy(io.Discard, far) }()
						return near, nil
					}
					begin := time.Now()
					err := open(t.Context(), a)
					if took := time.Since(begin); took > want+want/10 || ExitCode(err) != ExitUnreachable ||
						!strings.Contains(err.Error(), "no answer from 127.0.0.1:9092 (default) within "+want.String()+
							": connected, but nothing answers there; ") {
						t.Errorf("%s, --timeout %s %s: %v after %v", how, limit, encrypted, err, took)
					}
				})
			}
		}
	}
}

// silent returns the address of a listener that accepts connections and never answers, as a stopped
// process does.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// refusing returns an address where nothing listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	return l.Addr().String()
}

// A seed that hangs costs some time, and not the command: the next seeds are asked, too, and later
// requests go to the one that answered, not to one that was not asked.
func TestASeedThatHangs(t *testing.T) {
	b := chronik.StartTest(t)
	hangs, down := silent(t), refusing(t)
	for _, seeds := range [][]string{{hangs, b.Addr()}, {hangs, down, b.Addr()}, {b.Addr(), hangs, down}} {
		adm, cl, err := app(t, "--brokers", strings.Join(seeds, ",")).connectBoth(t.Context())
		if err != nil {
			t.Errorf("%v: %v", seeds, err)
			continue
		}
		if n := len(cl.SeedBrokers()); n != 1 {
			t.Errorf("%v: the client uses %d of them", seeds, n)
		}
		for range 2 * len(seeds) { // the client takes another broker each time
			if _, err := adm.BrokerMetadata(t.Context()); err != nil {
				t.Errorf("%v: metadata: %v", seeds, err)
			}
		}
		adm.Close()
	}
}

// If no seed answers, the error names the reason of each.
func TestNoSeedAnswers(t *testing.T) {
	hangs, down := silent(t), refusing(t)
	_, err := app(t, "--timeout", "1s", "--brokers", hangs+","+down).Connect(t.Context())
	if want := hangs + ": no answer in time, " + down + ": unable to dial: "; ExitCode(err) != ExitUnreachable ||
		!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "connection refused; is it running") {
		t.Errorf("%v, want %s", err, want)
	}
}

// A connection that never answers ends after the dialer's patience, in time to try another broker,
// and the library does so.
func TestAConnectionThatNeverAnswers(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := &dialer{tcp: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, far) }()
				return near, nil
			}}
			if encrypted {
				d.tls = certs.Base()
			}
			d.patience.Store(int64(time.Second))
			begin := time.Now()
			c, err := d.dial(t.Context(), "tcp", "127.0.0.1:9092")
			if err == nil {
				if err = c.SetReadDeadline(begin.Add(time.Minute)); err == nil {
					_, err = c.Read(make([]byte, 1))
				}
				_ = c.Close()
			}
			if took := time.Since(begin); !seeds.Late(err) || errors.Is(err, context.DeadlineExceeded) || took != time.Second {
				t.Errorf("encrypted %v: %v after %v", encrypted, err, took)
			}
		})
	}
}

// The client library repeats a request to a broker that has just ended, until another one leads its
// partitions. One that stays away ends the command.
func TestABrokerThatHasJustEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialer{tcp: func(_ context.Context, network, _ string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}}
		d.patience.Store(int64(time.Minute))
		refused := func(when, want string) {
			t.Helper()
			var op *net.OpError
			_, err := d.dial(t.Context(), "tcp", "b:9092")
			if !errors.As(err, &op) || op.Op != want || !errors.Is(err, syscall.ECONNREFUSED) || !Unconnected(err) {
				t.Errorf("%s: %v, want the error of a %s", when, err, want)
			}
		}
		refused("an address of --brokers", "dial")
		d.remembers.Store(true)
		refused("at once", "connect")
		time.Sleep(refusedFor - 1)
		refused("a moment later", "connect")
		time.Sleep(time.Nanosecond)
		refused("later", "dial")
	})
}

// A broker that is silent once costs a command no second wait: requests that any broker may answer
// go to another one, and those to the silent one fail at once.
func TestASilentBrokerIsWaitedForOnce(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dials := 0
			d := &dialer{tcp: func(ctx context.Context, network, _ string) (net.Conn, error) {
				if dials++; !hangs {
					<-ctx.Done()
					return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
				}
				near, far := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, far) }()
				return near, nil
			}}
			d.patience.Store(int64(time.Minute))
			d.remembers.Store(true)
			c, err := d.dial(t.Context(), "tcp", "b:9092")
			if err == nil {
				if err = c.SetReadDeadline(time.Now().Add(time.Hour)); err == nil {
					_, err = c.Read(make([]byte, 1))
				}
				_ = c.Close()
			}
			if !seeds.Late(err) {
				t.Errorf("hangs %v: %v", hangs, err)
			}
			begun := time.Now()
			_, err = d.dial(t.Context(), "tcp", "b:9092")
			var op *net.OpError
			if Remedy(err) == "" || IsUnknown(err) {
				t.Errorf("%v: remedy %q, unknown %v", err, Remedy(err), IsUnknown(err))
			}
			if !errors.As(err, &op) || op.Op == "dial" || op.Timeout() || dials != 1 || time.Since(begun) != 0 {
				t.Errorf("hangs %v, again: %v after %v, %d dials", hangs, err, time.Since(begun), dials)
			}
			time.Sleep(silentFor) // as of a command that waits until a broker has restarted
			if c, err := d.dial(t.Context(), "tcp", "b:9092"); err == nil {
				_ = c.Close()
			}
			if dials != 2 {
				t.Errorf("hangs %v, much later: %d dials", hangs, dials)
			}
		})
	}
}

// The error names an admin port, whether the port answers a Kafka request or waits for the end of
// its first line.
func TestAPortThatSpeaksHTTP(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for range 2 { // the bytes differ on the next client's connection
		a := app(t, "--brokers", s.Listener.Addr().String(), "--timeout", "2s")
		_, err := a.Connect(t.Context())
		if ExitCode(err) != ExitUnreachable ||
			!strings.Contains(err.Error(), "the server speaks HTTP, not Kafka's protocol; that may be the admin port") {
			t.Error(err)
		}
	}
}

// No request waits longer than --timeout, even if it carries its own timeout.
func TestABrokerThatComesToHang(t *testing.T) {
	b := chronik.StartTest(t)
	a := app(t, "--timeout", "200ms", "--brokers", b.Addr())
	var deaf atomic.Bool
	dial := a.dial
	a.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return &deafened{c, &deaf}, err
	}
	adm, err := a.Connect(t.Context())
	must.OK(t, err)
	defer adm.Close()
	deaf.Store(true)
	_, err = adm.CreateTopic(t.Context(), 1, 1, nil, "a")
	if remedy := Remedy(err); !strings.Contains(remedy, "the broker did not answer in time") {
		t.Errorf("%v; %s", err, remedy)
	}
}

// deafened is a connection that discards all writes once deaf is set.
type deafened struct {
	net.Conn
	deaf *atomic.Bool
}

func (d *deafened) Write(p []byte) (int, error) {
	if d.deaf.Load() {
		return len(p), nil
	}
	return d.Conn.Write(p)
}

// repeated runs a command that fails a number of times, under a context with a timeout.
func repeated(t *testing.T, end time.Duration, wrap func(*App, *cobra.Command) *cobra.Command, failures int, flags ...string) (runs int,
	out, errs string, took time.Duration, err error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), end)
	defer stop()
	var o, e bytes.Buffer
	a := app(t)
	a.Out, a.Err = &o, &e
	c := wrap(a, &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		runs++
		fmt.Fprintln(a.Out, "run", runs)
		if runs <= failures {
			return WithCode(ExitUnhealthy, errors.New("wrong"))
		}
		return nil
	}})
	c.SetArgs(flags)
	begin := time.Now()
	err = c.ExecuteContext(ctx)
	return runs, o.String(), e.String(), time.Since(begin), err
}

// With --watch a command runs until it is interrupted, whether it fails or not.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, out, errs, took, err := repeated(t, 5*time.Second, (*App).Watched, 1, "--watch")
		if n != 3 || out != "run 1\nrun 2\nrun 3\n" || errs != "chronikctl: wrong\n" || took != 5*time.Second || err != nil {
			t.Errorf("%d runs in %v, %v\n%s%s", n, took, err, out, errs)
		}
		if n, _, _, _, err := repeated(t, 5*time.Second, (*App).Watched, 0, "--watch=1s"); n != 5 && n != 6 || err != nil {
			t.Errorf("%d runs, %v", n, err)
		}
		if n, _, _, _, err := repeated(t, 5*time.Second, (*App).Watched, 1); n != 1 || ExitCode(err) != ExitUnhealthy {
			t.Errorf("without --watch: %d runs, %v", n, err)
		}
		_, _, _, _, err = repeated(t, 5*time.Second, (*App).Watched, 0, "--watch=1ms")
		if err == nil || !strings.Contains(err.Error(), "at least 100ms") {
			t.Errorf("%v", err)
		}
	})
}

// With --wait a check ends as soon as it succeeds, or with its last failure.
func TestWait(t *testing.T) {
	wrap := func(a *App, c *cobra.Command) *cobra.Command { return a.AddWait(c, "it is well") }
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			failures, runs int
			took           time.Duration
			code           int
			flag           string
		}{
			{0, 1, 0, ExitOK, "--wait=3s"}, {2, 3, time.Second, ExitOK, "--wait=3s"}, {99, 7, 3 * time.Second, ExitUnhealthy, "--wait=3s"},
			{1, 1, 0, ExitUnhealthy, "--wait=0s"},
			{99, 3, 1200 * time.Millisecond, ExitUnhealthy, "--wait=1h"},
		} {
			end := time.Hour
			if c.flag == "--wait=1h" {
				end = 1200 * time.Millisecond // interrupt it
			}
			n, out, _, took, err := repeated(t, end, wrap, c.failures, c.flag)
			if n != c.runs || out != fmt.Sprintf("run %d\n", n) || took != c.took || ExitCode(err) != c.code {
				t.Errorf("%+v: %d runs in %v, %v\n%s", c, n, took, err, out)
			}
		}
	})
}

// A command that works on files ignores a contexts file that it cannot read, but not one with
// errors.
func TestAContextsFileOfAnotherUser(t *testing.T) {
	locked := t.TempDir() + "/none"
	must.OK(t, os.WriteFile(locked, nil, 0))
	if _, err := os.ReadFile(locked); err == nil {
		t.Skip("this user may read everything")
	}
	for name, want := range map[string]int{"files": ExitOK, "broker": ExitUsage} {
		var errs bytes.Buffer
		a := New("v", Streams{Err: &errs, Getenv: func(name string) string { return map[string]string{contexts.EnvFile: locked}[name] }})
		none := func(*cobra.Command, []string) error { return nil }
		root := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(Local(&cobra.Command{Use: "files", RunE: none}), &cobra.Command{Use: "broker", RunE: none})
		a.Prepare(root)
		root.SetArgs([]string{name})
		err := root.Execute()
		if ExitCode(err) != want || (want == ExitOK) != strings.HasSuffix(errs.String(), "; continuing without it\n") {
			t.Errorf("%s: %v\n%s", name, err, errs.String())
		}
	}
}

// app returns a run with these flags.
func app(t *testing.T, flags ...string) *App {
	t.Helper()
	a := New("v", Streams{})
	root := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	a.Prepare(root)
	root.SetArgs(flags)
	must.OK(t, root.Execute())
	return a
}

func TestOutcomes(t *testing.T) {
	var out bytes.Buffer
	a := app(t)
	a.Out = &out
	var o Outcomes
	o.Done("a", "has %d partitions", 3)
	o.Refused("b", "change b", kerr.InvalidConfig, "no")
	if err := a.PrintOutcomes(&o); err == nil || !strings.HasPrefix(err.Error(), "change b: INVALID_CONFIG: no; ") ||
		out.String() != "a has 3 partitions\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	a = app(t, "-o", "json")
	out.Reset()
	a.Out = &out
	if err := a.PrintOutcomes(&Outcomes{}); err != nil || out.String() != "[]\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

// Names that clients chose do not affect the terminal of who reads them.
func TestNamesAreShownPlainly(t *testing.T) {
	const name, shown = "a\x1b[2J\u202e\nb", `a\x1b[2J\u202e\x0ab`
	var out, errs bytes.Buffer
	a := app(t)
	a.In, a.Out, a.Err = strings.NewReader(""), &out, &errs
	var o Outcomes
	o.Done(name, "made of %s", name)
	must.OK(t, a.PrintOutcomes(&o))
	a.NoteLosses([]string{name})
	a.Note("note: %v\nof %s", errors.New("b\x1b"), name)
	if err := a.ask("delete "+name, Irreversible, nil); ExitCode(err) != ExitUnconfirmed {
		t.Error(err)
	}
	if got, want := out.String(), shown+" made of "+shown+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	want := "  " + shown + "\nnote: b\\x1b\nof " + shown + "\ndelete " + shown + "? " + Irreversible + " yes or no: \n"
	if got := errs.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWordsAreTheBrokers(t *testing.T) {
	err := &kadm.ShardErrors{AllFailed: true, Errs: []kadm.ShardError{{Err: kerr.ClusterAuthorizationFailed}}}
	if got := BrokerError(fmt.Errorf("x: %w", err)); !errors.Is(got, kerr.ClusterAuthorizationFailed) ||
		strings.Contains(got.Error(), "x: ") {
		t.Errorf("%v", got)
	}
	if !IsUnsupported(errors.New("broker is too old; the broker has already …")) || IsUnsupported(nil) ||
		IsUnsupported(kerr.InvalidRequest) {
		t.Error("IsUnsupported is false for a missing API")
	}
}

func TestSoftwareVersionIsWhatKIP511Allows(t *testing.T) {
	for in, want := range map[string]string{"v1.2.3": "v1.2.3", "abc+dirty": "abc-dirty", "": "unknown", "...": "unknown", "a b": "a-b"} {
		if got := SoftwareVersion(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// An expression that no topic matches may be a pattern of the shell.
func TestAPatternOfTheShellIsRecognized(t *testing.T) {
	names := []string{"test-1", "test-2", "other"}
	for pattern, want := range map[string]string{
		"test-*":  "test-.*",
		"te*-1":   "te.*-1",
		"none*":   "",
		"no.*":    "",
		"[xyz]*":  "",
		"test\\*": "",
	} {
		got := likeShell(pattern, names)
		if want == "" && strings.Contains(got, "did you mean") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", pattern, got)
		}
	}
}

// A broker that answers only what its start waits for is named with that, and gets no HTTP request.
func TestABrokerThatStartsSaysWhatItWaitsFor(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer listener.Close()
	var other atomic.Int32 // connections whose client speaks another protocol
	go func() {
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			go func() {
				defer c.Close()
				var size [4]byte
				if _, err := io.ReadFull(c, size[:]); err != nil {
					return
				}
				if size[0] != 0 {
					other.Add(1)
					return
				}
				p := make([]byte, binary.BigEndian.Uint32(size[:]))
				if _, err := io.ReadFull(c, p); err != nil {
					return
				}
				if !bytes.Contains(p, []byte{1, 0x83, 0xa0, 1, 0}) { // one tag, view.PhaseTag, empty
					<-t.Context().Done()
					return
				}
				resp := kmsg.NewPtrApiVersionsResponse()
				resp.SetVersion(3)
				resp.UnknownTags.Set(view.PhaseTag, []byte("waiting for seeds"))
				out := resp.AppendTo(append(make([]byte, 4, 64), p[4:8]...))
				binary.BigEndian.PutUint32(out, uint32(len(out)-4))
				_, _ = c.Write(out)
			}()
		}
	}()
	at := listener.Addr().String()
	_, err = app(t, "--brokers", at, "--timeout", "2s").Connect(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the broker at "+at+" serves no clients yet: waiting for seeds") || other.Load() > 0 {
		t.Errorf("%v; %d other requests", err, other.Load())
	}
}
