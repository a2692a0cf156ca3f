package guard

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
)

// keysOf returns the credentials of a user, all of whose bytes are the same letter.
func keysOf(letter string) []metadata.Credential {
	of := func(n int) secret.Secret { return secret.Of(strings.Repeat(letter, n)) }
	return []metadata.Credential{
		{Mechanism: metadata.ScramSHA256, Iterations: 8192, Salt: of(24), StoredKey: of(32), ServerKey: of(32)},
		{Mechanism: metadata.ScramSHA512, Iterations: 8192, Salt: of(24), StoredKey: of(64), ServerKey: of(64)},
	}
}

func TestFormatIsFixed(t *testing.T) {
	salt, short, long := strings.Repeat("a2tr", 8), strings.Repeat("a2tr", 10)+"a2s=", strings.Repeat("a2tr", 21)+"aw=="
	kim := "kim:SCRAM-SHA-256:[iterations=8192,salt=" + salt + ",storedkey=" + short + ",serverkey=" + short + "]\n" +
		"kim:SCRAM-SHA-512:[iterations=8192,salt=" + salt + ",storedkey=" + long + ",serverkey=" + long + "]\n"
	got := leave(1000, "", "kim", keysOf("k"))
	if want := "# uid=1000\n" + kim; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// The keys of the same user are replaced, and those of others stay. The first line is the last
	// call's.
	got = leave(0, leave(1000, leave(7, got, " b", keysOf("x")), " b", keysOf("k")), "c", keysOf("k"))
	want := "# uid=0\n" + kim + strings.ReplaceAll(kim, "kim:", " b:") + strings.ReplaceAll(kim, "kim:", "c:")
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Whichever call fails, a password that was left is there after a power loss, and one that was
// taken does not come back.
func TestI7AFaultAtEveryCallOfLeftUsers(t *testing.T) {
	for failing := 1; ; failing++ {
		power := crashfs.New(1)
		must.OK(t, vfs.MakeDir(power, "/data"))
		disk := errfs.New(power)
		fault := disk.Add(errfs.Rule{From: failing, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached})
		again := func(call func() error) {
			if err := call(); err != nil {
				must.OK(t, call())
			}
		}
		again(func() error {
			return LeaveUser(context.Background(), disk, "/data", "kim", secret.Of("password"), func(string) error { return nil })
		})
		text, err := vfs.ReadFile(power.PowerLossImage(crashfs.DropUnsynced, 1), "/data/"+newUsers)
		if err != nil || !strings.Contains(string(text), "kim:") {
			t.Errorf("call %d failed: %q is left, %v", failing, text, err)
		}
		g := &Guard{cfg: &config.Config{DataDir: "/data"}, taken: string(text)} // set, and not removed yet
		again(func() error { return g.TakeUsers(context.Background(), disk, nil) })
		for _, file := range []string{newUsers, takenUsers} {
			if _, err := power.PowerLossImage(crashfs.DropUnsynced, 1).Stat("/data/" + file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("call %d failed: %s comes back: %v", failing, file, err)
			}
		}
		if fault.Hits() == 0 {
			return
		}
	}
}

// meanwhile is a store that runs a function before its second transaction, in which TakeUsers sets
// passwords.
type meanwhile struct {
	metadata.Store
	n   int
	act func()
}

func (m *meanwhile) Txn(ctx context.Context, t metadata.Txn) (int64, error) {
	if m.n++; m.n == 2 {
		m.act()
	}
	return m.Store.Txn(ctx, t)
}

// What is left while the broker sets passwords is set afterwards, and not removed unread.
func TestPasswordsThatAreLeftMeanwhileAreSet(t *testing.T) {
	ctx := context.Background()
	disk := vfs.Memory()
	must.OK(t, vfs.MakeDir(disk, "/data"))
	leaves := func(name string) {
		must.OK(t, LeaveUser(ctx, disk, "/data", name, secret.Of("password"), func(string) error { return nil }))
	}
	s := solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop()})
	defer s.Close()
	of := func(name string) metadata.KV {
		kv, _, err := s.Get(ctx, metadata.UserKey(name))
		must.OK(t, err)
		return kv
	}
	g := &Guard{cfg: &config.Config{DataDir: "/data"}, log: zap.NewNop()}
	c := controller.New(controller.Options{Store: &meanwhile{Store: s, act: func() { leaves("bob"); leaves("kim") }}})
	leaves("kim")
	must.OK(t, g.TakeUsers(ctx, disk, c))
	first := of("kim")
	if first.ModRevision == 0 || of("bob").ModRevision != 0 {
		t.Fatalf("kim is at %d, bob at %d", first.ModRevision, of("bob").ModRevision)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, name := range []string{"kim", "bob"} {
		if err := AwaitTaken(ended, disk, "/data", name); !errors.Is(err, context.Canceled) {
			t.Errorf("%s counts as set: %v", name, err)
		}
	}
	must.OK(t, g.TakeUsers(ctx, disk, c))
	if second := of("kim"); bytes.Equal(second.Value, first.Value) || of("bob").ModRevision == 0 {
		t.Errorf("kim is at %d, bob at %d", second.ModRevision, of("bob").ModRevision)
	}
	must.OK(t, AwaitTaken(ended, disk, "/data", "kim"))
}

// A file that a broker has not removed before its end is set by the next one, before later ones.
func TestWhatABrokerHasTakenIsSetByTheNextOne(t *testing.T) {
	ctx := context.Background()
	disk := vfs.Memory()
	must.OK(t, vfs.MakeDir(disk, "/data"))
	left := leave(1, "", "kim", keysOf("k"))
	must.OK(t, vfs.WriteFile(disk, "/data/"+takenUsers, []byte(left), true))
	must.OK(t, vfs.WriteFile(disk, "/data/"+newUsers, []byte(leave(1, "", "bob", keysOf("b"))), true))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := AwaitTaken(ended, disk, "/data", "kim"); !errors.Is(err, context.Canceled) {
		t.Errorf("kim counts as set: %v", err)
	}
	must.OK(t, AwaitTaken(ended, disk, "/data", "im"))
	s := solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop()})
	defer s.Close()
	g := &Guard{cfg: &config.Config{DataDir: "/data"}, log: zap.NewNop()}
	for _, name := range []string{"kim", "bob"} {
		must.OK(t, g.TakeUsers(ctx, disk, controller.New(controller.Options{Store: s})))
		if kv, _, err := s.Get(ctx, metadata.UserKey(name)); err != nil || kv.ModRevision == 0 {
			t.Errorf("%s is not set: %v", name, err)
		}
	}
}

// Of two commands at once, neither removes what the other one leaves.
func TestTwoCommandsLeaveTheirUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Memory()
		must.OK(t, vfs.MakeDir(disk, "/data"))
		leaves := func(name string, own func(string) error) error {
			return LeaveUser(t.Context(), disk, "/data", name, secret.Of("password"), own)
		}
		second := make(chan error, 1)
		must.OK(t, leaves("kim", func(file string) error {
			if strings.HasSuffix(file, ".tmp") {
				go func() { second <- leaves("bob", func(string) error { return nil }) }()
				synctest.Wait() // it is ready, or waits for the first one
			}
			return nil
		}))
		must.OK(t, <-second)
		text, err := vfs.ReadFile(disk, "/data/"+newUsers)
		must.OK(t, err)
		users, err := login.ParseUsers(string(text))
		if must.OK(t, err); len(users) != 2 {
			t.Errorf("left are %q", text)
		}
	})
}

// A failure of another day is said like the first one, and an end of the failures in between.
func TestFailuresOfLeftUsersAreSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := errfs.New(vfs.Memory())
		must.OK(t, vfs.MakeDir(disk, "/data"))
		core, said := observer.New(zap.InfoLevel)
		g := &Guard{cfg: &config.Config{DataDir: "/data"}, log: zap.New(core)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); g.FollowUsers(ctx, disk, nil) }()
		for range 2 {
			fault := disk.Add(errfs.Rule{Ops: errfs.Open, Path: "/data/" + takenUsers, Err: syscall.EIO})
			time.Sleep(10*takeEvery + takeEvery/2)
			fault.Off()
			time.Sleep(2 * takeEvery)
			all := said.TakeAll()
			if len(all) != 6 || all[0].Level != zap.WarnLevel || all[0].ContextMap()["file"] != "/data/"+newUsers ||
				all[5].Level != zap.InfoLevel {
				t.Errorf("said: %+v", all)
			}
		}
		cancel()
		<-done
	})
}

// FuzzLeft leaves users with any names that fit a line, and reads them again. No other text ends
// the broker, and no error shows what stands where a password does.
func FuzzLeft(f *testing.F) {
	f.Add("kim", "# uid=1\nbob:SCRAM-SHA-256:x\n")
	f.Add(" b", "a:b:")
	f.Add("c", "a:SCRAM-SHA-1:x\r\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		const password = "5e4f1c0a"
		if strings.Contains(text, password) || strings.Contains(name, password) {
			return
		}
		for _, err := range login.UserLines(strings.ReplaceAll(text, "\n", password+"\n")) {
			if err != nil && strings.Contains(err.Error(), ":"+password) {
				t.Fatal(err)
			}
		}
		if !login.ValidName(name) || !login.FitsLine(name) || name == "other" {
			return
		}
		users, err := login.ParseUsers(leave(1, leave(2, "", "other", keysOf("o")), name, keysOf("k")))
		if must.OK(t, err); len(users) != 2 || users[1].Name != name || len(users[1].Credentials) != 2 {
			t.Fatalf("%+v", users)
		}
	})
}
