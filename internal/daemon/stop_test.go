package daemon

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A component that never stops takes no time from the components on the disk, and the stop ends.
func TestAStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, free := &stack{log: zap.NewNop()}, make(chan struct{})
		defer close(free)
		begun := time.Now()
		order := make(chan string, 4)
		stuck := func(name string) func(context.Context) error {
			return func(context.Context) error { order <- name; <-free; return nil }
		}
		s.pushDisk("metadata", func(ctx context.Context) error { order <- "metadata"; return ctx.Err() })
		s.pushDisk("logs", func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			if left := time.Until(deadline); left != stopTimes().disk {
				t.Errorf("the logs have %v", left)
			}
			order <- "logs"
			return nil
		})
		s.push("handlers", stuck("handlers"))
		s.push("clients", stuck("clients"))
		err := s.unwind(t.Context(), stopTimes())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "clients did not stop in time") {
			t.Error(err)
		}
		for _, want := range []string{"clients", "handlers", "logs", "metadata"} {
			if got := <-order; got != want {
				t.Errorf("%s stops, want %s", got, want)
			}
		}
		if took, most := time.Since(begun), stopTimes().drain+2*stopTimes().grace; took != most {
			t.Errorf("it took %v, want %v", took, most)
		}
	})
}

// A client that reads from a hung disk does not keep another log directory from its clean mark.
func TestAStuckDiskTakesTheCleanMarkFromNoOther(t *testing.T) {
	mem := vfs.Memory()
	b, _ := startHere(t, mem, "log.dirs=/one,/two")
	fill(t, b, "t", 2, 3)
	if err := b.Close(); err != nil { // the records in memory are lost with it
		t.Fatal(err)
	}
	errs, free := errfs.New(mem), make(chan struct{})
	held := errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/two/t-*/*.log", Before: func(errfs.Call) { <-free }})
	cfg, err := resolve.Load(config.Input{Set: []string{"log.dirs=/one,/two"}, Flags: map[string]string{config.KeyDataDir: "/data",
		config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "127.0.0.1:0"}})
	must.OK(t, err)
	b, err = Start(
		t.Context(),
		Options{Config: cfg, FS: errs, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20,
			stop: times{drain: 100 * time.Millisecond, disk: patience, grace: 100 * time.Millisecond}},
	)
	must.OK(t, err)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumeTopics("t"))
	must.OK(t, err)
	defer c.Close()
	eventually(t, "a client reads", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		c.PollFetches(ctx)
		return held.Hits() > 0
	})
	if markedClean(mem, "/one") || markedClean(mem, "/two") {
		t.Fatal("a serving broker has a clean mark")
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Close() }()
	eventually(t, "the directory that works is marked clean", func() bool { return markedClean(mem, "/one") })
	close(free)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the stop does not end")
	}
}

// patience bounds how long a test waits for something that must happen, however busy the machine
// is.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("never: %s", what)
		}
	}
}

// If a start fails before leader epochs are raised, the stop before it still counts as unclean: the
// next start raises them (I9).
func TestAStartThatFailsLeavesAnUncleanStopUnclean(t *testing.T) {
	mem := vfs.Memory()
	b, _ := startHere(t, mem)
	fill(t, b, "t", 1, 3)
	must.OK(t, b.Close())
	unclean(t, mem, storage.Location{Path: "/data/logs"})
	errs := errfs.New(mem)
	var opened atomic.Bool
	errs.Add(errfs.Rule{Ops: errfs.Lock, Path: "/data/logs/*", Before: func(errfs.Call) { opened.Store(true) }})
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/data/metadata/*", When: func(errfs.Call) bool { return opened.Load() }, Err: syscall.EIO})
	cfg, err := resolve.Load(
		config.Input{
			Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "127.0.0.1:0"},
		},
	)
	must.OK(t, err)
	if b, err := Start(t.Context(), Options{Config: cfg, FS: errs, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20,
		JournalBytes: 16 << 20}); err == nil {
		t.Error("it started")
		_ = b.Close()
	}
	if !opened.Load() || markedClean(mem, "/data/logs") {
		t.Error("the stop before it counts as clean")
	}
	b, _ = startHere(t, mem)
	p, err := b.components.replicas.Partition(b.components.applier.Image().Topic("t").ID, 0)
	must.OK(t, err)
	if p.LeaderEpoch() < 1 {
		t.Errorf("epoch %d was not raised", p.LeaderEpoch())
	}
}

// While groups are loaded from a hung disk, connections of clients still end.
func TestALoadOnAHungDiskHoldsNoClient(t *testing.T) {
	mem := vfs.Memory()
	b, _ := startHere(t, mem)
	fill(t, b, "t", 1, 1)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	must.OK(t, err)
	defer c.Close()
	eventually(t, "an offset is committed", func() bool {
		offsets := kadm.Offsets{}
		offsets.AddOffset("t", 0, 1, -1)
		return kadm.NewClient(c).CommitAllOffsets(t.Context(), "g", offsets) == nil
	})
	if err := b.Close(); err != nil { // the data in memory is lost with it
		t.Fatal(err)
	}
	errs, free := errfs.New(mem), make(chan struct{})
	held := errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/data/logs/__consumer_offsets-*/*.log", Before: func(errfs.Call) { <-free }})
	cfg, err := resolve.Load(
		config.Input{
			Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "127.0.0.1:0"},
		},
	)
	must.OK(t, err)
	b, err = Start(
		t.Context(),
		Options{Config: cfg, FS: errs, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20,
			stop: times{drain: time.Hour, disk: time.Hour, grace: time.Hour}},
	)
	must.OK(t, err)
	client, err := net.Dial("tcp", b.Addrs()[0])
	must.OK(t, err)
	defer client.Close()
	eventually(
		t,
		"the groups are being loaded, and a client is there",
		func() bool { return held.Hits() > 0 && b.components.server.Load().Stats().Connections > 0 },
	)
	ended := make(chan error, 1)
	go func() { ended <- b.Close() }()
	must.OK(t, client.SetReadDeadline(time.Now().Add(patience)))
	// It was served nothing, so it is reset.
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client's connection was not reset: %v", err)
	}
	close(free)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// unclean makes a directory that was stopped cleanly look as it does after a crash.
func unclean(t testing.TB, fsys vfs.FS, loc storage.Location) {
	t.Helper()
	b, err := storage.OpenForRepair(loc, storage.Options{FS: fsys})
	must.OK(t, err)
	defer b.Close()
	s, err := storage.ReadState(fsys, loc.Path)
	if err == nil {
		err = b.Commit(s)
	}
	must.OK(t, err)
}

// markedClean reports whether the checkpoint of a log directory marks a clean stop.
func markedClean(fsys vfs.FS, dir string) bool {
	s, err := storage.ReadState(fsys, dir)
	return err == nil && s.Clean
}

// What ends after the end of the watch, as in every stop, is no failure; what ends before it is
// one.
func TestAnOrdinaryStopIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		for range 100 {
			ended := make(chan struct{})
			unwatch := watch(ended, func() { failures++ })
			unwatch()
			close(ended)
			synctest.Wait()
		}
		if failures != 0 {
			t.Errorf("%d of 100 stops were failures", failures)
		}
		ended := make(chan struct{})
		unwatch := watch(ended, func() { failures++ })
		close(ended)
		synctest.Wait()
		if unwatch(); failures != 1 {
			t.Errorf("%d failures after one", failures)
		}
	})
}

// What an abandoned component still writes is under its lock until it has returned.
func TestALockOutlivesWhatWasAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, free, released := &stack{log: zap.NewNop()}, make(chan struct{}), make(chan struct{})
		below := false
		s.push("addresses", func(context.Context) error { below = true; return nil })
		s.pushLock("lock", func() error { close(released); return nil })
		s.pushDisk("metadata", func(context.Context) error { <-free; return nil })
		s.push("clients", func(context.Context) error { return nil })
		if err := s.unwind(t.Context(), stopTimes()); err == nil || !below {
			t.Error("the stop ended with", err)
		}
		synctest.Wait()
		select {
		case <-released:
			t.Fatal("the lock is released while a component may write")
		default:
		}
		close(free)
		<-released
	})
}

// What is said of a component that fails to stop is true of it: only some of them recover at the
// next start. A lock that was not released is not said to be.
func TestAFailureToStopIsSaidAsWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, said := observer.New(zap.InfoLevel)
		s, free := &stack{log: zap.New(core)}, make(chan struct{})
		s.pushLock("lock", func() error { return syscall.EIO })
		s.push("audit log", func(context.Context) error { return syscall.ENOSPC })
		s.pushDisk("logs", func(context.Context) error { return syscall.EIO })
		s.push("clients", func(context.Context) error { <-free; return nil })
		_ = s.unwind(t.Context(), stopTimes())
		for name, recovers := range map[string]bool{"audit log": false, "logs": true, "clients": false} {
			all := said.FilterField(zap.String("component", name)).All()
			if len(all) != 1 || strings.Contains(all[0].Message, "recovers") != recovers {
				t.Errorf("%s: %+v", name, all)
			}
		}
		close(free)
		synctest.Wait()
		all := said.FilterField(zap.String("component", "lock")).All()
		if len(all) != 1 || all[0].Level != zap.ErrorLevel || strings.HasPrefix(all[0].Message, "released") {
			t.Errorf("the lock: %+v", all)
		}
	})
}

// A second call with a shorter limit cuts the first one short, and returns although the stop does
// not.
func TestTheEarliestLimitIsThatOfTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, free := newEnding(), make(chan struct{})
		begun, grace := time.Now(), time.Second
		canceled := make(chan time.Duration, 1)
		stop := func(ctx context.Context) error {
			<-ctx.Done()
			canceled <- time.Since(begun)
			<-free
			return ctx.Err()
		}
		first := make(chan error, 1)
		go func() { first <- e.wait(t.Context(), grace, stop) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := e.wait(ctx, grace, func(context.Context) error { t.Error("it stops twice"); return nil })
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second+graces*grace {
			t.Errorf("after %v: %v", took, err)
		}
		if at := <-canceled; at != 3*time.Second {
			t.Errorf("the stop's limit ended after %v", at)
		}
		close(free)
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Error("the first call:", err)
		}
	})
}

// The disk of the metadata hangs while a new file of them is created, and the stop abandons it.
// When the disk answers again, the file may be removed: so no other broker has the directory until
// then.
func TestADirectoryStaysInUseWhileAnAbandonedWriteHangs(t *testing.T) {
	mem := vfs.Memory()
	errs, free := errfs.New(mem), make(chan struct{})
	var armed atomic.Bool
	when := func(errfs.Call) bool { return armed.Load() }
	errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/data/metadata/*.log", When: when, Err: syscall.EIO, Count: 1})
	held := errs.Add(errfs.Rule{Ops: errfs.Create, Path: "/data/metadata/*", When: when, Before: func(errfs.Call) { <-free }})
	cfg, err := resolve.Load(config.Input{Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0",
		config.KeyAdminListen: "off"}})
	must.OK(t, err)
	o := Options{Config: cfg, FS: errs, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20,
		stop: times{drain: 100 * time.Millisecond, disk: 100 * time.Millisecond, grace: 100 * time.Millisecond}}
	b, err := Start(t.Context(), o)
	must.OK(t, err)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	must.OK(t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "before")
	must.OK(t, err)
	armed.Store(true)
	go func() { _, _ = kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "hung") }()
	eventually(t, "a file of the metadata is created", func() bool { return held.Hits() > 0 })
	if err := b.Close(); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("the stop ended with", err)
	}
	o.FS, o.stop = mem, times{}
	if b, err := Start(t.Context(), o); !errors.Is(err, vfs.ErrLocked) {
		t.Fatal("another broker has the directory:", b, err)
	}
	armed.Store(false)
	close(free)
	eventually(t, "the directory is free", func() bool {
		b, err := Start(t.Context(), o)
		if err == nil {
			must.OK(t, b.Close())
		} else if !errors.Is(err, vfs.ErrLocked) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// What still writes to a log directory when the stop has given up keeps the data directory from
// other brokers: a journal whose sync hangs, and the copy of the metadata.
func TestALogDirectoryThatIsWrittenToKeepsTheLock(t *testing.T) {
	for name, hangs := range map[string]errfs.Rule{
		"journal": {Ops: errfs.Datasync, Path: "/data/logs/journal/*"},
		"copy":    {Ops: errfs.Write, Path: "/data/logs/metadata.copy/*"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.Memory()
			errs, free := errfs.New(mem), make(chan struct{})
			var armed atomic.Bool
			hangs.When = func(errfs.Call) bool { return armed.Load() }
			hangs.Before = func(errfs.Call) { <-free }
			held := errs.Add(hangs)
			cfg, err := resolve.Load(config.Input{Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0",
				config.KeyAdminListen: "off"}})
			must.OK(t, err)
			o := Options{Config: cfg, FS: errs, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20,
				stop: times{drain: 100 * time.Millisecond, disk: 100 * time.Millisecond, grace: 100 * time.Millisecond}}
			b, err := Start(t.Context(), o)
			must.OK(t, err)
			client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("t"))
			must.OK(t, err)
			defer client.Close()
			armed.Store(true)
			client.Produce(t.Context(), kgo.StringRecord("x"), nil)
			eventually(t, "the disk hangs", func() bool { return held.Hits() > 0 })
			if err := b.Close(); !errors.Is(err, context.DeadlineExceeded) {
				t.Error("the stop ended with", err)
			}
			if lock, err := mem.Lock("/data/"+storage.LockFile, "test"); !errors.Is(err, vfs.ErrLocked) {
				t.Error("the data directory can be used:", lock, err)
			}
			close(free)
			eventually(t, "the directory is free", func() bool {
				lock, err := mem.Lock("/data/"+storage.LockFile, "test")
				if err == nil {
					must.OK(t, lock.Close())
				}
				return err == nil
			})
		})
	}
}

// Metadata with a key of a newer version are refused as files of a newer version are.
func TestNewerMetadataAreADirectorysFault(t *testing.T) {
	mem := vfs.Memory()
	b, _ := startHere(t, mem)
	_, err := b.components.member.Store().Txn(t.Context(), metadata.Txn{Put: []metadata.KV{{Key: "/later/1", Value: []byte(`{"v":1}`)}}})
	must.OK(t, err)
	<-b.Failed()
	_ = b.Close()
	cfg, err := resolve.Load(config.Input{Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0",
		config.KeyAdminListen: "off"}})
	must.OK(t, err)
	_, err = Start(t.Context(), Options{Config: cfg, FS: mem, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20,
		JournalBytes: 16 << 20})
	if code := exit.CodeOf(err); code != exit.Data || !errors.Is(err, metadata.ErrNewerVersion) ||
		!strings.Contains(err.Error(), "start the version that wrote it") {
		t.Error(code, err)
	}
}
