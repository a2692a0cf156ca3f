package datadir

import (
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A broker starts with metadata that it can't compare with a copy, and says so.
func TestACheckOfTheAgeThatIsNotMadeIsSaid(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	must.OK(t, copies.Write(disk, copies.In("/one"), nil, 7))
	core, said := observer.New(zap.WarnLevel)
	d := dirsOf(disk, "/one", "/two")
	d.log = zap.New(core)
	store := solestore.Open(t, raftstore.Options{FS: disk, Dir: d.Metadata(), Log: zap.NewNop()})
	defer store.Close()
	if err := d.CheckAge(store); err == nil {
		t.Error("the newer copy was not found")
	}
	disk.Add(errfs.Rule{Ops: errfs.Read, Path: copies.In("/one") + "/*", Err: syscall.EIO})
	must.OK(t, d.CheckAge(store))
	all := said.All()
	if len(all) != 1 || all[0].ContextMap()["copy"] != copies.In("/one") || all[0].ContextMap()["error"] == nil {
		t.Errorf("said: %+v", all)
	}
}
