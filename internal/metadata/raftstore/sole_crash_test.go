package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/storetest"
	"github.com/chronik-io/chronik/internal/vfs"
)

// openSole opens the only voter in /m, and gives it an empty state if it has none, as a first start
// does that may have been interrupted anywhere.
func openSole(fsys vfs.FS) (*Store, error) {
	s, err := Open(Options{FS: fsys, Dir: "/m", CompactBytes: 600})
	if err == nil && s.Sole() == 0 {
		err = s.Bootstrap(Initial{Generation: [16]byte{1}, Voters: []uint64{s.Member()}})
	}
	if err == nil {
		err = s.Failed()
	}
	if err != nil && s != nil {
		_ = s.Close() // the cause is more important
		s = nil
	}
	return s, err
}

// soleRun runs the script until the file system dies, opening the store again in the middle, and
// returns how many transactions were acknowledged.
func soleRun(fsys vfs.FS, txns []metadata.Txn) int {
	acknowledged := 0
	for _, part := range [][]metadata.Txn{txns[:9], txns[9:]} {
		s, err := openSole(fsys)
		if err != nil {
			return acknowledged
		}
		for _, t := range part {
			if _, err := s.Txn(context.Background(), t); err != nil {
				_ = s.Close()
				return acknowledged
			}
			acknowledged++
		}
		if s.Close() != nil {
			return acknowledged
		}
	}
	return acknowledged
}

// content returns what the only voter shows when it is open.
func content(t testing.TB, s *Store) string {
	t.Helper()
	keys, revision, err := s.Range(context.Background(), "")
	must.OK(t, err)
	return storetest.Text(keys, revision)
}

// checkSole opens the only voter after a crash (I6): it leads at once, what was acknowledged is
// present, and the transaction in progress is complete or absent. Read shows the same.
func checkSole(t *testing.T, fsys vfs.FS, acknowledged int, want []string) {
	t.Helper()
	c, rerr := Read(fsys, "/m")
	s, err := openSole(fsys)
	if err != nil || rerr != nil {
		t.Fatalf("open after the crash, %d acknowledged: %v, %v", acknowledged, err, rerr)
	}
	defer s.Close()
	got := content(t, s)
	if got != want[acknowledged] && (acknowledged+1 >= len(want) || got != want[acknowledged+1]) {
		t.Fatalf("%d acknowledged, found %s\nwant %s\nor the one after", acknowledged, got, want[acknowledged])
	}
	if read := storetest.Text(c.Keys, c.Revision); c.Used && read != got {
		t.Fatalf("Read shows %s, the store %s", read, got)
	}
	if role, _ := s.Leadership(); !role.Ready || s.Sole() == 0 {
		t.Fatalf("the only voter does not lead: %+v", role)
	}
}

// The power fails at any call, also during the first start: no acknowledged transaction is lost.
func TestTheOnlyVoterAfterACrashAtEverySystemCall(t *testing.T) {
	txns := storetest.Script()
	want := storetest.Expectations(txns)
	whole := crashfs.New(1)
	if n := soleRun(whole, txns); n != len(txns) {
		t.Fatalf("%d of %d transactions without a crash", n, len(txns))
	}
	for call := range whole.Ops() + 1 {
		for _, die := range []func(*crashfs.FS, int){(*crashfs.FS).CrashAt, (*crashfs.FS).CrashDuring} {
			fsys := crashfs.New(uint64(call))
			die(fsys, call)
			acknowledged := soleRun(fsys, txns)
			checkSole(t, fsys.KillImage(1), acknowledged, want)
			for _, m := range crashfs.Modes() {
				for seed := range uint64(2) {
					checkSole(t, fsys.PowerLossImage(m, seed), acknowledged, want)
				}
			}
		}
	}
}

// What the next process shows must persist as well: it is killed during or after its start, and
// then the power fails.
func TestTheOnlyVoterCrashesWhileItStarts(t *testing.T) {
	txns := storetest.Script()
	want := storetest.Expectations(txns)
	for seed := range uint64(40) {
		first := crashfs.New(seed)
		first.CrashDuring(20 + int(seed))
		acknowledged := soleRun(first, txns)
		for call := range 16 {
			second := first.KillImage(seed)
			second.CrashAt(call)
			shown := acknowledged
			if s, err := openSole(second); err == nil {
				if content(t, s) != want[acknowledged] {
					shown++ // the transaction in progress is visible, and must not vanish again
				}
				_ = s.Close()
			}
			for _, m := range crashfs.Modes() {
				checkSole(t, second.PowerLossImage(m, seed), shown, want)
			}
		}
	}
}

// stopped returns the files of an only voter after a clean stop, and what it showed.
func stopped(t testing.TB) (files map[string][]byte, held string) {
	t.Helper()
	fsys := vfs.Memory()
	for i := range 2 {
		s, err := openSole(fsys)
		must.OK(t, err)
		mustTxn(t, s, put(fmt.Sprintf("/%d", i), "1"))
		mustTxn(t, s, metadata.Txn{Put: []metadata.KV{{Key: "/b", Value: []byte("2")}}, Delete: []string{"/0"}})
		held = content(t, s)
		must.OK(t, s.Close())
	}
	return filesOf(t, fsys), held
}

// After a clean stop no flipped bit goes unnoticed, not even in the last transaction, and a start
// that refuses the files changes nothing.
func TestEveryFlippedBitIsFoundOrHarmless(t *testing.T) {
	whole, held := stopped(t)
	for name, p := range whole {
		for i := range 8 * len(p) {
			broken := map[string][]byte{}
			for n, q := range whole {
				broken[n] = bytes.Clone(q)
			}
			broken[name][i/8] ^= 1 << (i % 8)
			fsys := diskOf(t, broken)
			s, err := Open(Options{FS: fsys, Dir: "/m"})
			if err == nil {
				if got := content(t, s); got != held {
					t.Fatalf("%s with bit %d of byte %d flipped opens as %s, want %s or an error", name, i%8, i/8, got, held)
				}
				_ = s.Close()
				continue
			}
			if !strings.Contains(err.Error(), "damaged") {
				t.Fatalf("bit %d of byte %d of %s: %v", i%8, i/8, name, err)
			}
			for n, q := range broken {
				if now, err := vfs.ReadFile(fsys, path.Join("/m", n)); err != nil || !bytes.Equal(now, q) {
					t.Fatalf("%s was changed by an open that failed: %v", n, err)
				}
			}
		}
	}
}

// I5: after a failed write or sync nothing more is written to that file. When the disk works again,
// the store continues with a new generation of what was acknowledged.
func TestTheOnlyVoterBeginsANewGenerationAfterAFailure(t *testing.T) {
	for _, ops := range []errfs.Op{errfs.Write, errfs.Datasync} {
		disk := errfs.New(vfs.Memory())
		s, err := openSole(disk)
		must.OK(t, err)
		mustTxn(t, s, put("/a", "1"))
		fault := disk.Add(errfs.Rule{Ops: ops | errfs.Create, Path: "/m/*", Err: errDisk})
		for range 3 {
			if _, err := s.Txn(t.Context(), put("/c", "1")); !errors.Is(err, errDisk) {
				t.Errorf("a transaction while the disk fails: %v", err)
			}
		}
		if kv, _, err := s.Get(t.Context(), "/a"); string(kv.Value) != "1" || err != nil || s.Failed() == nil {
			t.Errorf("after the failure: %s, %v, %v", kv.Value, err, s.Failed())
		}
		fault.Off()
		mustTxn(t, s, put("/d", "1"))
		want := content(t, s)
		must.OK(t, s.Close())
		again, err := openSole(disk)
		must.OK(t, err)
		if got := content(t, again); got != want || !strings.Contains(got, "/a=1") || !strings.Contains(got, "/d=1") {
			t.Errorf("opened again: %s, want %s", got, want)
		}
		_ = again.Close()
	}
}

// I13: a transaction whose attempt to write again hangs ends with its context.
func TestAnAttemptThatHangsDoesNotHoldItsCaller(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	s, err := openSole(disk)
	must.OK(t, err)
	disk.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/m/*", Count: 1, Err: errDisk})
	if _, err := s.Txn(t.Context(), put("/a", "1")); !errors.Is(err, errDisk) {
		t.Fatalf("a transaction while the disk fails: %v", err)
	}
	free, hangs := make(chan struct{}), make(chan struct{}, 1)
	disk.Add(errfs.Rule{Ops: errfs.Create, Path: "/m/*", Count: 1, Before: func(errfs.Call) { hangs <- struct{}{}; <-free }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Txn(ctx, put("/b", "1"))
		ended <- err
	}()
	<-hangs
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the transaction waits for the disk")
	}
	close(free)
	_ = s.Close()
}
