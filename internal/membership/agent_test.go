package membership

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeController answers an agent as the leader of the metadata does.
type fakeController struct {
	mu      sync.Mutex
	epoch   int64
	owner   [16]byte // the registered process
	seen    []int64
	beats   []controller.Heartbeat
	state   metadata.Liveness
	refuse  error // of registrations
	deaf    bool  // heartbeats arrive, and answers are lost
	joined  int
	stale   bool // heartbeats are refused until the next registration
	forever bool // the process of owner registers again and again
	invalid bool // heartbeats are refused for good
	ahead   time.Duration
	lease   time.Duration // 0: 3 s
	lag     time.Duration // by which the metadata of the processes are behind
	past    []registration
	dirs    map[[16]byte][]controller.RegisterDir // of the newest registration of each process
}

// registration is one that the metadata show from a time on.
type registration struct {
	at    time.Time
	epoch int64
	owner [16]byte
}

// shown returns the registration that metadata show which are behind.
func (f *fakeController) shown() (epoch int64, owner [16]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.past); n == 0 || f.past[n-1].epoch != f.epoch {
		f.past = append(f.past, registration{time.Now(), f.epoch, f.owner})
	}
	for _, x := range f.past {
		if time.Since(x.at) >= f.lag {
			epoch, owner = x.epoch, x.owner
		}
	}
	return epoch, owner
}

func (f *fakeController) call(ctx context.Context, method uint16, body []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch method {
	case MethodJoin:
		f.joined++
		return nil, nil
	case MethodRegister:
		q, err := decode[controller.RegisterRequest](body)
		if err != nil {
			return nil, err
		}
		f.seen = append(f.seen, q.Seen)
		if f.forever {
			f.epoch += 10
			return nil, &Failure{codeController + uint16(controller.StaleBrokerEpoch), "stale"}
		}
		if f.refuse != nil {
			return nil, f.refuse
		}
		if f.epoch != 0 && f.owner != q.Incarnation && q.Seen != f.epoch {
			return nil, &Failure{codeController + uint16(controller.StaleBrokerEpoch), "overtaken"}
		}
		if f.owner != q.Incarnation {
			f.epoch, f.owner = f.epoch+10, q.Incarnation
		}
		if f.dirs == nil {
			f.dirs = map[[16]byte][]controller.RegisterDir{}
		}
		f.dirs[q.Incarnation] = q.Dirs
		f.stale = false
		return encode(registered{f.epoch}), nil
	case MethodHeartbeat:
		h, err := decode[heartbeat](body)
		if err != nil {
			return nil, err
		}
		f.beats = append(f.beats, h.Heartbeat)
		if f.deaf {
			f.mu.Unlock()
			<-ctx.Done()
			f.mu.Lock()
			return nil, ctx.Err()
		}
		if f.stale || h.Epoch != f.epoch {
			return nil, &Failure{codeController + uint16(controller.StaleBrokerEpoch), "stale"}
		}
		if f.invalid {
			return nil, &Failure{codeController + uint16(controller.InvalidRequest), "too many directories"}
		}
		a := controller.HeartbeatAnswer{Sequence: h.Sequence, Proven: h.Answered, Liveness: f.state}
		if h.Answered > 0 {
			a.Lease = cmp.Or(f.lease, 3*time.Second)
		}
		return packAnswer(a, leaderInfo{time.Now().Add(f.ahead).UnixMicro(), "1.2"}), nil
	}
	return nil, errors.New("another method")
}

// set changes the controller.
func (f *fakeController) set(change func(*fakeController)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// newAgent returns the agent of a process and a channel with what it failed with.
func (f *fakeController) newAgent(process byte) (*Agent, chan error) {
	failed := make(chan error, 1)
	return NewAgent(AgentOptions{
		Request: controller.RegisterRequest{Broker: 1, Member: 11, Incarnation: [16]byte{process},
			Dirs: []controller.RegisterDir{{ID: [16]byte{4}, Clean: true, Finding: [16]byte{process}, Found: 7, Sequence: 8}}},
		Registered: func(context.Context) (int64, [16]byte, error) {
			epoch, owner := f.shown()
			return epoch, owner, nil
		},
		Join: func() JoinRequest { return JoinRequest{} }, Wish: func() Wish { return Wish{Vote: true} },
		Leader: func() (uint64, <-chan struct{}) { return 12, nil }, Seek: func(context.Context, uint64) (uint64, string) { return 0, "" },
		Call: func(ctx context.Context, _ uint64, method uint16, body []byte) ([]byte, error) {
			p, err := f.call(ctx, method, body)
			f.shown() // from now on
			return p, err
		},
		State: func() BrokerState { return BrokerState{Applied: 5} }, Interval: 500 * time.Millisecond, Timeout: 3 * time.Second,
		Progress: func(string) {}, Fail: func(err error) { failed <- err }, Log: zap.NewNop(),
	}), failed
}

// running registers an agent and runs it until the test's bubble ends.
func running(t *testing.T, f *fakeController, process byte) (*Agent, chan error) {
	t.Helper()
	a, failed := f.newAgent(process)
	if _, err := a.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.Lease() {
		t.Error("a lease before any answer")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { a.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return a, failed
}

// A new leader does not know the address of a member that has not registered, so the member still
// knows the former one. It then asks the seeds.
func TestAFormerLeaderIsNotAskedForEver(t *testing.T) {
	for name, refused := range map[string]error{
		"it does not lead":    &Failure{CodeNotLeader, "this node does not lead the metadata"},
		"it does not answer":  context.DeadlineExceeded,
		"it can't be reached": errors.New("the address of member 000000000000000c is not known"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeController{state: metadata.Active}
				a, _ := f.newAgent(1)
				a.o.Seek = func(_ context.Context, former uint64) (uint64, string) { return former + 1, "" }
				a.o.Call = func(ctx context.Context, member uint64, method uint16, body []byte) ([]byte, error) {
					if member != 13 {
						return nil, refused
					}
					return f.call(ctx, method, body)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := a.Register(ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestTheLeaseEndsWhenAnswersAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{state: metadata.Active}
		a, _ := running(t, f, 1)
		if err := a.AwaitActive(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if left := a.LeaseLeft(); left < 2*time.Second || left > 3*time.Second {
			t.Errorf("the lease lasts %v while all answers arrive", left)
		}
		f.set(func(f *fakeController) { f.deaf = true })
		time.Sleep(3 * time.Second)
		if a.Lease() {
			t.Error("the lease outlives the session timeout without an answer")
		}
		f.set(func(f *fakeController) {
			if n := len(f.beats); n < 120 {
				t.Errorf("%d heartbeats in a minute", n)
			}
		})
		time.Sleep(time.Minute)
		f.set(func(f *fakeController) { f.deaf = false })
		time.Sleep(5 * time.Second)
		if !a.Lease() {
			t.Error("no lease although answers arrive again")
		}
	})
}

// The broker counts on no lease that is longer than the session, whatever the controller grants.
func TestNoLeaseOutlivesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{state: metadata.Active, lease: time.Hour}
		a, _ := running(t, f, 1)
		if err := a.AwaitActive(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.set(func(f *fakeController) { f.deaf = true })
		time.Sleep(3 * time.Second)
		if left := a.LeaseLeft(); left > 0 {
			t.Errorf("the lease lasts %v more after a session without an answer", left)
		}
	})
}

// A process that has closed its connection with the controller has no lease until a heartbeat that
// it sends after that is answered.
func TestTheLeaseEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{state: metadata.Active}
		a, _ := running(t, f, 1)
		time.Sleep(time.Minute)
		f.set(func(f *fakeController) { f.deaf = true })
		a.Ended(12)
		time.Sleep(200 * time.Millisecond)
		if a.Lease() {
			t.Error("a lease after the end of the connection")
		}
		if left := a.LeaseLeft(); left != -200*time.Millisecond {
			t.Errorf("the lease ended %v ago, not 200ms", -left)
		}
		f.set(func(f *fakeController) { f.deaf = false })
		time.Sleep(100 * time.Millisecond)
		if !a.Lease() {
			t.Error("no lease although an answer arrived")
		}
		f.set(func(f *fakeController) { f.deaf = true }) // no heartbeat after the end is answered
		a.mu.Lock()
		h := controller.Heartbeat{Epoch: a.epoch}
		h.Sequence, _ = a.session.Send(time.Now())
		a.inFlight++
		a.mu.Unlock()
		a.Ended(12)
		a.answered(&h, controller.HeartbeatAnswer{Sequence: h.Sequence, Proven: h.Sequence, Lease: 3 * time.Second}, nil)
		if a.Lease() {
			t.Error("the answer to an earlier heartbeat granted a lease")
		}
	})
}

func TestAProcessRegistersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{state: metadata.Active}
		a, failed := running(t, f, 1)
		if err := a.AwaitActive(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.set(func(f *fakeController) { f.stale = true })
		time.Sleep(10 * time.Second)
		if !a.Lease() || len(f.seen) < 2 || len(f.seen) > 3 || f.joined != len(f.seen) {
			t.Errorf("registered %d times and joined %d times, lease %v", len(f.seen), f.joined, a.Lease())
		}
		select {
		case err := <-failed:
			t.Errorf("failed: %v", err)
		default:
		}
	})
}

// Refusals of heartbeats that were sent before a registration say nothing of it, and metadata that
// show the process before this one are no sign of another one.
func TestRefusalsOfBeforeARegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{state: metadata.Active, epoch: 10, owner: [16]byte{9}}
		a, failed := f.newAgent(1)
		a.o.Registered = func(context.Context) (int64, [16]byte, error) { return 10, [16]byte{9}, nil }
		a.o.Call = func(ctx context.Context, _ uint64, method uint16, body []byte) ([]byte, error) {
			p, err := f.call(ctx, method, body)
			if method == MethodHeartbeat {
				time.Sleep(5 * impatient) // several are on the way
			}
			return p, err
		}
		if _, err := a.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.set(func(f *fakeController) { f.stale = true })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { a.Run(ctx); close(ended) }()
		t.Cleanup(func() { cancel(); <-ended })
		if err := a.AwaitActive(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(f.seen) != 2 {
			t.Errorf("registered %d times, want 2", len(f.seen))
		}
		// Nor does it end later, however often the controller forgets it.
		for range 3 {
			f.set(func(f *fakeController) { f.stale = true })
			time.Sleep(time.Minute)
		}
		select {
		case err := <-failed:
			t.Errorf("failed: %v", err)
		default:
		}
	})
}

// One of two processes ends, however far their metadata are behind. Until then, what the one found
// at its start counts for nothing when it registers over the other one: that one may have led with
// records that this one does not have.
func TestTwoProcessesWithOneNodeID(t *testing.T) {
	for _, lag := range []time.Duration{0, 300 * time.Millisecond, 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeController{state: metadata.Active, lag: lag}
			ctx, cancel := context.WithCancel(t.Context())
			var ended sync.WaitGroup
			defer ended.Wait()
			defer cancel()
			failed := make(chan error, 2)
			for process := range byte(2) {
				a, failing := f.newAgent(process + 1)
				ended.Go(func() {
					if _, err := a.Register(ctx); err != nil {
						failed <- err
						return
					}
					a.Run(ctx)
					select {
					case err := <-failing:
						failed <- err
					default:
					}
				})
				time.Sleep(10 * time.Second)
			}
			select {
			case err := <-failed:
				if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "node.id=1") {
					t.Errorf("behind by %v: one ends with %v", lag, err)
				}
			case <-time.After(time.Minute):
				t.Errorf("behind by %v: both processes continue", lag)
			}
			f.set(func(f *fakeController) {
				if d := f.dirs[[16]byte{1}][0]; d.Found != 0 || d.Clean || d.Sequence != 8 {
					t.Errorf("behind by %v: registered over the other process with %+v", lag, d)
				}
			})
		})
	}
}

func TestRegistrationsThatAreOvertakenEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{forever: true, epoch: 1, owner: [16]byte{7}}
		a, _ := f.newAgent(1)
		if _, err := a.Register(t.Context()); !errors.Is(err, ErrRefused) {
			t.Errorf("registered with %v", err)
		}
	})
}

func TestRegistrationIsRepeatedOrRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, final := range map[uint16]bool{
			CodeNotLeader: false,
			codeController + uint16(controller.DuplicateBroker):  false,
			codeController + uint16(controller.StaleBrokerEpoch): false,
			CodeRefused: true,
			codeController + uint16(controller.UnknownMember):         true,
			codeController + uint16(controller.InconsistentClusterID): true,
			codeController + uint16(controller.UnsupportedVersion):    true,
		} {
			f := &fakeController{refuse: &Failure{code, "why"}}
			a, _ := f.newAgent(1)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := a.Register(ctx)
			cancel()
			if errors.Is(err, ErrRefused) != final || final && err.Error() != "why" || !final && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("code %d: %v, want an end: %v", code, err, final)
			}
		}
	})
}

// A broker that starts as the only voter registers with itself, when it is elected but does not
// decide yet. It waits for that, and not for a pause.
func TestARegistrationIsRepeatedWhenTheLeadershipMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{refuse: &Failure{CodeNotLeader, "why"}}
		a, _ := f.newAgent(1)
		moved := make(chan struct{})
		a.o.Leader = func() (uint64, <-chan struct{}) { return 12, moved }
		a.o.Seek = func(context.Context, uint64) (uint64, string) {
			t.Error("the seeds were asked for the leader")
			return 0, ""
		}
		time.AfterFunc(time.Millisecond, func() {
			f.set(func(f *fakeController) { f.refuse = nil })
			close(moved)
		})
		began := time.Now()
		if _, err := a.Register(t.Context()); err != nil || time.Since(began) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{state: metadata.Active}
		a, _ := running(t, f, 1)
		if err := a.AwaitActive(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(10 * time.Second)
			f.set(func(f *fakeController) { f.state = metadata.Drained })
		}()
		begun := time.Now()
		if err := a.Drain(t.Context(), 3*time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("drained after %v", took)
		}
		if last := f.beats[len(f.beats)-1]; !last.Drain {
			t.Error("the heartbeats do not ask to drain")
		}
	})
}

// Brokers that stop at the same time do not wait for a controller that none of them is any longer.
func TestDrainEndsWithoutAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{state: metadata.Active}
		a, _ := running(t, f, 1)
		if err := a.AwaitActive(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.set(func(f *fakeController) { f.deaf = true })
		begun := time.Now()
		if err := a.Drain(t.Context(), 3*time.Second); err == nil {
			t.Error("drained without an answer")
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("gave up after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Drain(ctx, 3*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the limit of the drain ends it with %v", err)
		}
	})
}

// A broker knows the version and the clock of the metadata leader from the answers to its
// heartbeats.
func TestAnswersShowTheLeadersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{state: metadata.Active, ahead: time.Hour}
		idle, _ := f.newAgent(1)
		if _, _, ok := idle.State(); ok {
			t.Error("a state before the first answer")
		}
		a, _ := running(t, f, 1)
		if err := a.AwaitActive(t.Context()); err != nil {
			t.Fatal(err)
		}
		state, of, ok := a.State()
		if !ok || state != metadata.Active || of.Version != "1.2" || (of.Ahead-time.Hour).Abs() > time.Millisecond {
			t.Errorf("state %v, leader %+v, %v; want version 1.2, an hour ahead", state, of, ok)
		}
		synctest.Wait() // until no answer is on the way
		a.compare(leaderInfo{Wall: 1, Version: "1.3"}, time.Now().Add(-exact))
		if _, of, _ = a.State(); of.Version != "1.3" || (of.Ahead-time.Hour).Abs() > time.Millisecond {
			t.Errorf("a late answer changes the leader to %+v", of)
		}
	})
}

// A refusal that will not change is logged once, not hidden: the broker will be fenced.
func TestRefusedHeartbeatsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeController{state: metadata.Active}
		core, logs := observer.New(zap.WarnLevel)
		a, _ := f.newAgent(1)
		a.o.Log = zap.New(core)
		if _, err := a.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { a.Run(ctx); close(ended) }()
		t.Cleanup(func() { cancel(); <-ended })
		f.set(func(f *fakeController) { f.invalid = true })
		time.Sleep(10 * time.Second)
		if n := logs.FilterMessage("the controller refuses the heartbeats of this broker").Len(); n != 1 {
			t.Errorf("logged %d times: %v", n, logs.All())
		}
	})
}
