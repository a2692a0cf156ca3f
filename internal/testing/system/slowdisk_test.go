package system

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/chronikd"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// slowDisk is a file system with a slow disk: Datasync and SyncDir run and return no earlier than
// sync after the call. Syncs of several files overlap. It is only in the test binary, so that no
// release has a switch that affects syncs; `make bench-windows` measures with it.
type slowDisk struct {
	vfs.FS
	sync time.Duration
}

func (d slowDisk) wait(call func() error) error {
	began := time.Now()
	err := call()
	time.Sleep(d.sync - time.Since(began))
	return err
}

func (d slowDisk) SyncDir(dir string) error { return d.wait(func() error { return d.FS.SyncDir(dir) }) }

func (d slowDisk) Open(name string) (vfs.File, error)   { return d.slow(d.FS.Open(name)) }
func (d slowDisk) Create(name string) (vfs.File, error) { return d.slow(d.FS.Create(name)) }

func (d slowDisk) slow(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return slowFile{File: f, disk: d}, nil
}

// slowFile passes on the methods of system files beyond vfs.File, so that nothing else about the
// disk changes.
type slowFile struct {
	vfs.File
	disk slowDisk
}

func (f slowFile) Datasync() error { return f.disk.wait(f.File.Datasync) }
func (f slowFile) WriteDirect(p []byte, off int64) (int, error) {
	return vfs.WriteDirect(f.File, p, off)
}

func (f slowFile) WriteVecUncached(bufs [][]byte, off int64) (int, error) {
	return vfs.WriteVecUncached(f.File, bufs, off)
}
func (f slowFile) StartWriteback(off, n int64) { vfs.StartWriteback(f.File, off, n) }
func (f slowFile) StartRead(off, n int64)      { vfs.StartRead(f.File, off, n) }

// slowChronikd is chronikd on a slowDisk of SYNC_TIME, which must be set.
func slowChronikd() {
	sync, err := time.ParseDuration(os.Getenv("SYNC_TIME"))
	if err != nil {
		os.Stderr.WriteString("chronikd-slowdisk: SYNC_TIME is the time of a sync, such as 5ms: " + err.Error() + "\n")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(chronikd.Main(ctx, chronikd.Process{
		Args: os.Args[1:], Environ: os.Environ(), Out: os.Stdout, Err: os.Stderr, Version: "with syncs of " + sync.String(),
		FS: slowDisk{FS: vfs.OS(), sync: sync},
	}))
}

// No sync of a slow disk is faster than SYNC_TIME, however its file was opened.
func TestSlowDiskSyncsAreSlow(t *testing.T) {
	const sync = 20 * time.Millisecond
	d := slowDisk{FS: vfs.OS(), sync: sync}
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	made, err := d.Create(name)
	must.OK(t, err)
	opened, err := d.Open(name)
	must.OK(t, err)
	for what, call := range map[string]func() error{"made": made.Datasync, "opened": opened.Datasync,
		"directory": func() error { return d.SyncDir(dir) }} {
		began := time.Now()
		if err := call(); err != nil || time.Since(began) < sync {
			t.Errorf("the sync of a %s file took %v: %v", what, time.Since(began), err)
		}
	}
	for _, f := range []vfs.File{made, opened} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
