package system

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/chronikd"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/vfstest"
	"github.com/chronik-io/chronik/internal/vfs"
)

// faultyDisk is a disk that fails on command and that can lose power. It is only in the test
// binary, so that no release has a switch that breaks a disk.
type faultyDisk struct {
	*errfs.FS
	under *lossyDisk
	data  string

	mu     sync.Mutex
	healed chan struct{} // closed when what hangs continues
}

func newFaultyDisk(dir string, seed uint64) (*faultyDisk, error) {
	under, err := newLossyDisk(filepath.Join(dir, "trash"), seed)
	return &faultyDisk{FS: errfs.New(under), under: under, data: filepath.Join(dir, "d"), healed: make(chan struct{})}, err
}

func (d *faultyDisk) BootID() [16]byte { return d.under.BootID() }

// obey follows a command and returns what it did. "power" does not return: it kills the process.
func (d *faultyDisk) obey(command string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	healed := d.healed
	hang := func(errfs.Call) { <-healed }
	metadata := func(c errfs.Call) bool { return strings.Contains(c.Path, "/metadata/") }
	switch what, more, _ := strings.Cut(command, " "); what {
	case "power":
		err := d.under.powerLoss()
		fmt.Fprintln(os.Stderr, "the power is lost:", err)
		return errors.Join(err, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	case "syncs-fail":
		d.Add(errfs.Rule{Ops: errfs.Datasync, Err: syscall.EIO, When: func(c errfs.Call) bool { return !metadata(c) }})
	case "writes-fail":
		d.Add(errfs.Rule{Ops: errfs.Write, Err: syscall.EIO, When: func(c errfs.Call) bool { return !metadata(c) }})
	case "one-sync-fails":
		d.Add(errfs.Rule{Ops: errfs.Datasync, Err: syscall.EIO, Count: 1, When: func(c errfs.Call) bool { return !metadata(c) },
			Before: func(c errfs.Call) { // a line of the broker's log
				fmt.Fprintf(os.Stderr, "{\"level\":\"info\",\"msg\":\"this sync fails\",\"file\":%q}\n", c.Path)
			}})
	case "logs-hang":
		d.Add(errfs.Rule{Ops: errfs.Datasync | errfs.Write, Before: hang, When: func(c errfs.Call) bool { return !metadata(c) }})
	case "metadata-fails":
		d.Add(errfs.Rule{Ops: errfs.Datasync | errfs.Write, Err: syscall.EIO, When: metadata})
	case "full":
		return d.SetQuota(d.data, 0, nil)
	case "slow":
		delay, err := time.ParseDuration(more)
		d.Add(errfs.Rule{Ops: errfs.Datasync, Delay: delay})
		return err
	case "metadata-hangs":
		d.Add(errfs.Rule{Ops: errfs.Datasync, Before: hang, When: metadata})
	case "heal":
		d.Clear()
		d.NoQuota()
		close(d.healed)
		d.healed = make(chan struct{})
	default:
		return fmt.Errorf("unknown command %q", command)
	}
	return nil
}

// faultyChronikd is chronikd on a faultyDisk that obeys the lines of the standard input. It answers
// each with a line.
func faultyChronikd() {
	d, err := newFaultyDisk(".", rand.Uint64())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	go func() {
		for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
			fmt.Println(d.obey(scan.Text()))
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(chronikd.Main(ctx, chronikd.Process{
		Args: os.Args[1:], Environ: os.Environ(), Out: io.Discard, Err: os.Stderr, Version: "on a disk that fails", FS: d,
	}))
}

func TestFaultyDiskIsADiskUntilItFails(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		dir := t.TempDir()
		d, err := newFaultyDisk(dir, 1)
		must.OK(t, err)
		dir = filepath.Join(dir, "work")
		must.OK(t, d.MkdirAll(dir))
		return d, dir
	})
}

// A power loss takes back sectors and names that were not synced, some of them at least, and
// nothing else.
func TestLossyDiskLosesOnlyWhatIsNotSynced(t *testing.T) {
	lost := map[string]bool{}
	for seed := range uint64(50) {
		dir := t.TempDir()
		d, err := newLossyDisk(filepath.Join(dir, "trash"), seed)
		must.OK(t, err)
		data := filepath.Join(dir, "d")
		put := func(name string, fill byte, sectors int) vfs.File {
			t.Helper()
			f, err := d.Create(filepath.Join(data, name))
			if err == nil {
				_, err = f.WriteAt(bytes.Repeat([]byte{fill}, sectors*sector), 0)
			}
			must.OK(t, err)
			return f
		}
		sync := func(f vfs.File) {
			t.Helper()
			must.OK(t, errors.Join(f.Datasync(), d.SyncDir(data)))
		}
		must.OK(t, d.MkdirAll(data))
		must.OK(t, d.SyncDir(dir))
		kept := put("kept", 1, 4)
		sync(kept)
		sync(put("replaced", 1, 1))
		sync(put("removed", 1, 1))
		if _, err := kept.WriteAt(bytes.Repeat([]byte{2}, 4*sector), 2*sector); err != nil {
			t.Fatal(err)
		}
		sync(put("new", 3, 1))
		put("made", 4, 1)
		must.OK(t, errors.Join(d.Rename(filepath.Join(data, "new"), filepath.Join(data, "replaced")),
			d.Remove(filepath.Join(data, "removed")), d.powerLoss()))
		p, err := os.ReadFile(filepath.Join(data, "kept"))
		if err != nil || len(p) != 4*sector && len(p) != 6*sector || !bytes.Equal(p[:2*sector], bytes.Repeat([]byte{1}, 2*sector)) {
			t.Errorf("seed %d: %d bytes, %v", seed, len(p), err)
		}
		for at := 2 * sector; at < len(p); at += sector {
			lost[fmt.Sprint("sector ", at/sector, " is ", p[at])] = true
			if !bytes.Equal(p[at:at+sector], bytes.Repeat(p[at:at+1], sector)) {
				t.Errorf("seed %d: sector %d is torn", seed, at/sector)
			}
		}
		for _, name := range []string{"replaced", "removed", "made", "new"} {
			p, err := os.ReadFile(filepath.Join(data, name))
			what := fmt.Sprint(name, " is missing")
			if err == nil {
				what = fmt.Sprintf("%s is %v", name, p[:min(1, len(p))])
			}
			lost[what] = true
		}
	}
	for _, what := range []string{"sector 2 is 1", "sector 2 is 2", "sector 3 is 1", "sector 3 is 2", "sector 4 is 0", "sector 4 is 2",
		"sector 5 is 0", "sector 5 is 2", "replaced is [1]", "replaced is [3]", "removed is [1]", "removed is missing", "made is []",
		"made is [0]", "made is [4]", "made is missing", "new is [3]", "new is missing"} {
		if !lost[what] {
			t.Errorf("never: %s", what)
		}
		delete(lost, what)
	}
	for what := range lost {
		t.Errorf("it happened that %s", what)
	}
}
