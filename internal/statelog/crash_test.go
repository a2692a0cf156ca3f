package statelog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// calls are appends of several records each, enough for several generations.
func calls() [][]string {
	var all [][]string
	for i := range 8 {
		call := []string{fmt.Sprintf("%d-%0*d", i, 70*i%400, 0), fmt.Sprintf("%d+", i)}
		all = append(all, call[:1+i%2])
	}
	return all
}

// expectations returns the states after the first n calls, for every n.
func expectations(all [][]string) []string {
	want := []string{""}
	for i := range all {
		want = append(want, strings.Join(slices.Concat(all[:i+1]...), ","))
	}
	return want
}

// run appends until the file system crashes, and reopens the log halfway. It returns how many calls
// returned without an error. later makes the owner write snapshots with Begin and Finish.
func run(fsys vfs.FS, mirror string, later bool, all [][]string) int {
	done := 0
	for _, part := range [][][]string{all[:5], all[5:]} {
		opts := Options{FS: fsys, Dir: "/s", Mirror: mirror, CompactBytes: 600}
		if later {
			opts.CompactBytes = 200
		}
		o, err := tryOwn(opts)
		if err != nil {
			return done
		}
		o.later = later
		for _, call := range part {
			before := len(o.items)
			err := o.add(call...)
			if len(o.items) > before {
				done++ // the append returned; the rotation after it may have failed
			}
			if err != nil {
				_ = o.Close()
				return done
			}
		}
		if o.Close() != nil {
			return done
		}
	}
	return done
}

// checkHeld accepts the result of the calls that returned, with all or nothing of the call in
// progress.
func checkHeld(t *testing.T, what, got string, err error, done int, want []string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s, %d calls done: %v", what, done, err)
	}
	if got != want[done] && (done+1 >= len(want) || got != want[done+1]) {
		t.Fatalf("%s, %d calls done, holds %s\nwant %s\nor one call more", what, done, got, want[done])
	}
}

// checkCrash checks both copies: the first one opens, and the other one can replace it.
func checkCrash(t *testing.T, image *crashfs.FS, mirror string, done int, want []string) {
	t.Helper()
	if mirror != "" && done > 0 {
		var l list
		_, err := Restore(image, mirror, "/restored", testFormat, &l)
		checkHeld(t, "mirror", l.String(), err, done, want)
		got, _, err := readList(image, "/restored")
		if got != l.String() || err != nil {
			t.Fatalf("restored copy holds %s, %v; want %s", got, err, l.String())
		}
	}
	o, err := tryOwn(Options{FS: image, Dir: "/s", Mirror: mirror})
	checkHeld(t, "log", o.String(), err, done, want)
	if mirror != "" {
		got, _, err := readList(image, mirror)
		if got != o.String() || err != nil {
			t.Fatalf("mirror after the next start holds %s, %v; want %s", got, err, o.String())
		}
	}
}

func TestCrashAtEverySystemCall(t *testing.T) {
	all := calls()
	want := expectations(all)
	for _, c := range []struct {
		mirror string
		later  bool
	}{{"", false}, {"/copy", false}, {"", true}, {"/copy", true}} {
		mirror, later := c.mirror, c.later
		whole := crashfs.New(1)
		if n := run(whole, mirror, later, all); n != len(all) {
			t.Fatalf("%d of %d calls without a crash", n, len(all))
		}
		for call := range whole.Ops() + 1 {
			for _, die := range []func(*crashfs.FS, int){(*crashfs.FS).CrashAt, (*crashfs.FS).CrashDuring} {
				fsys := crashfs.New(uint64(call))
				die(fsys, call)
				done := run(fsys, mirror, later, all)
				checkCrash(t, fsys.KillImage(1), mirror, done, want)
				for _, m := range crashfs.Modes() {
					for seed := range uint64(2) {
						checkCrash(t, fsys.PowerLossImage(m, seed), mirror, done, want)
					}
				}
			}
		}
	}
}

// State that the next process showed must survive, even if that process is killed during recovery
// and the power then fails.
func TestCrashWhileRecovering(t *testing.T) {
	all := calls()
	want := expectations(all)
	for seed := range uint64(20) {
		first := crashfs.New(seed)
		first.CrashDuring(20 + 4*int(seed))
		done := run(first, "/copy", seed%2 == 0, all)
		for call := range 24 {
			second := first.KillImage(seed)
			second.CrashAt(call)
			shown := done
			if o, err := tryOwn(Options{FS: second, Dir: "/s", Mirror: "/copy"}); err == nil && o.String() != want[done] {
				shown++ // the call in progress survived
			}
			for _, m := range crashfs.Modes() {
				checkCrash(t, second.PowerLossImage(m, seed), "/copy", shown, want)
			}
		}
	}
}

// This test detects a missing or an additional sync.
func TestSystemCallsOfALog(t *testing.T) {
	fsys := crashfs.New(1)
	fsys.SetTrace(true)
	o := own(t, Options{FS: fsys, Dir: "/s", Mirror: "/copy"})
	must(t, o.add("a", "bc"))
	must(t, o.Close())
	const log, tmp, snapshot = "/0000000000000001.log", "/0000000000000001.snapshot.tmp", "/0000000000000001.snapshot"
	want := []string{
		"mkdir /s", "syncdir /", "mkdir /copy", "syncdir /",
		"create /s" + log, "create /copy" + log, "write /s" + log + " 0+48", "write /copy" + log + " 0+48",
		"datasync /s" + log, "datasync /copy" + log, "syncdir /s", "syncdir /copy",
		"create /s" + tmp, "create /copy" + tmp, "write /s" + tmp + " 0+73", "write /copy" + tmp + " 0+73",
		"datasync /s" + tmp, "datasync /copy" + tmp,
		"rename /s" + tmp + " /s" + snapshot, "syncdir /s", "rename /copy" + tmp + " /copy" + snapshot, "syncdir /copy",
		"write /s" + log + " 48+29", "write /copy" + log + " 48+29", "datasync /s" + log, "datasync /copy" + log,
		"write /s" + log + " 77+24", "write /copy" + log + " 77+24", "datasync /s" + log, "datasync /copy" + log,
	}
	if got := fsys.Trace(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
