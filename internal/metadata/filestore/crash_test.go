package filestore

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// script is a workload of transactions with several keys each, so that an incomplete one would
// show, and long enough for several generations.
func script() []metadata.Txn {
	var txns []metadata.Txn
	for i := range 14 {
		t := metadata.Txn{}
		for k := range 3 {
			t.Put = append(t.Put, metadata.KV{Key: fmt.Sprintf("/k%d", (i+k)%7), Value: fmt.Appendf(nil, "%d-%0*d", i, 40*i%300, k)})
		}
		if i%3 == 2 {
			t.Delete = []string{fmt.Sprintf("/k%d", (i+3)%7)}
		}
		txns = append(txns, t)
	}
	return txns
}

// expectations returns the dumps after the first n transactions, for every n.
func expectations(txns []metadata.Txn) []string {
	st := kv.NewState()
	want := []string{text(nil, 0)}
	for _, t := range txns {
		st.Replay(t)
		want = append(want, text(st.Range(""), st.Revision()))
	}
	return want
}

// crashRun runs the script until the file system dies, reopening the store in the middle, and
// returns how many transactions were acknowledged.
func crashRun(fsys vfs.FS, txns []metadata.Txn) int {
	acknowledged := 0
	for _, part := range [][]metadata.Txn{txns[:9], txns[9:]} {
		s, err := Open(Options{FS: fsys, Dir: "/m", Log: zap.NewNop(), CompactBytes: 600})
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

// I6: after a crash at any point, the acknowledged transactions are present, and the one in
// progress is complete or absent.
func checkAfterCrash(t *testing.T, fsys *crashfs.FS, acknowledged int, want []string) {
	t.Helper()
	s, err := Open(Options{FS: fsys, Dir: "/m", Log: zap.NewNop()})
	if err != nil {
		t.Fatalf("open after the crash, %d acknowledged: %v", acknowledged, err)
	}
	defer s.Close()
	got := dump(t, s)
	if got != want[acknowledged] && (acknowledged+1 >= len(want) || got != want[acknowledged+1]) {
		t.Fatalf("%d acknowledged, found %s\nwant %s\nor the one after", acknowledged, got, want[acknowledged])
	}
}

func TestCrashAtEverySystemCall(t *testing.T) {
	txns := script()
	want := expectations(txns)
	whole := crashfs.New(1)
	if n := crashRun(whole, txns); n != len(txns) {
		t.Fatalf("%d of %d transactions without a crash", n, len(txns))
	}
	for call := range whole.Ops() + 1 {
		for _, die := range []func(*crashfs.FS, int){(*crashfs.FS).CrashAt, (*crashfs.FS).CrashDuring} {
			fsys := crashfs.New(uint64(call))
			die(fsys, call)
			acknowledged := crashRun(fsys, txns)
			checkAfterCrash(t, fsys.KillImage(1), acknowledged, want)
			for _, m := range crashfs.Modes() {
				for seed := range uint64(4) {
					checkAfterCrash(t, fsys.PowerLossImage(m, seed), acknowledged, want)
				}
			}
			if t.Failed() {
				t.Fatalf("at call %d of %d", call, whole.Ops())
			}
		}
	}
}

// The state that the next process shows must persist as well: it is killed during or after
// recovery, and then the power fails.
func TestCrashWhileRecovering(t *testing.T) {
	txns := script()
	want := expectations(txns)
	for seed := range uint64(60) {
		first := crashfs.New(seed)
		first.CrashDuring(20 + int(seed))
		acknowledged := crashRun(first, txns)
		for call := range 12 {
			second := first.KillImage(seed)
			second.CrashAt(call)
			shown := acknowledged
			if s, err := Open(Options{FS: second, Dir: "/m", Log: zap.NewNop()}); err == nil {
				if dump(t, s) != want[acknowledged] {
					shown++ // the transaction in progress is visible, and must not vanish again
				}
				_ = s.Close()
			}
			for _, m := range crashfs.Modes() {
				checkAfterCrash(t, second.PowerLossImage(m, seed), shown, want)
			}
		}
	}
}

// A missing or additional sync is a difference here.
func TestSystemCallsOfTheStore(t *testing.T) {
	fsys := crashfs.New(1)
	fsys.SetTrace(true)
	s := open(t, fsys, func(o *Options) { o.CompactBytes = 150 })
	mustTxn(t, s, put("/a", "1"))
	mustTxn(t, s, put("/b", string(make([]byte, 200))))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"mkdir /m", "syncdir /",
		"create /m/0000000000000001.log", "write /m/0000000000000001.log 0+48", "datasync /m/0000000000000001.log", "syncdir /m",
		"create /m/0000000000000001.snapshot.tmp", "write /m/0000000000000001.snapshot.tmp 0+73",
		"datasync /m/0000000000000001.snapshot.tmp",
		"rename /m/0000000000000001.snapshot.tmp /m/0000000000000001.snapshot", "syncdir /m",
		"write /m/0000000000000001.log 48+32", "datasync /m/0000000000000001.log",
		"write /m/0000000000000001.log 80+233", "datasync /m/0000000000000001.log",
		"create /m/0000000000000002.log", "write /m/0000000000000002.log 0+48", "datasync /m/0000000000000002.log", "syncdir /m",
		"create /m/0000000000000002.snapshot.tmp", "write /m/0000000000000002.snapshot.tmp 0+312",
		"datasync /m/0000000000000002.snapshot.tmp",
		"rename /m/0000000000000002.snapshot.tmp /m/0000000000000002.snapshot", "syncdir /m",
		"remove /m/0000000000000001.log", "remove /m/0000000000000001.snapshot",
		"write /m/0000000000000002.log 48+24", "datasync /m/0000000000000002.log",
	}
	got := fsys.Trace()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("call %d:\ngot  %q\nwant %q", i, got[min(i, len(got)):], want[min(i, len(want)):])
		}
	}
}
