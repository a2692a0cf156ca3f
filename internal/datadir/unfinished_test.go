package datadir

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

func dirsOf(fsys vfs.FS, dirs ...string) *Dirs {
	return New(fsys, &config.Config{DataDir: "/data"}, &configdef.Broker{NodeID: 1, LogDirs: dirs}, zap.NewNop())
}

func TestFormatIsFixed(t *testing.T) {
	mem := vfs.Memory()
	u := Unfinished{Cluster: "c", Number: 7, Nonce: "ab", Into: "d", Generation: "01", Node: 3}
	_, lock, err := dirsOf(mem, "/one", "/two").BeginRestore(u)
	must.OK(t, err)
	must.OK(t, lock.Close())
	b, err := statefile.Read(mem, "/data/restore.unfinished", "restore", 1)
	const want = `{"cluster":"c","number":7,"nonce":"ab","into":"d","generation":"01","node":3,` +
		`"dirs":["/one","/one/journal","/two","/two/journal"]}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

func FuzzUnfinished(f *testing.F) {
	f.Add([]byte(`{"cluster":"c","number":7}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.Memory()
		must.OK(t, mem.MkdirAll("/data"))
		must.OK(t, statefile.Write(mem, "/data/restore.unfinished", unfinishedKind, unfinishedVersion, b))
		d := dirsOf(mem, "/one")
		if u, err := d.Unfinished(); (u == nil) == (err == nil) {
			t.Errorf("%+v, %v", u, err)
		}
		if err := d.CheckFormats(); exit.CodeOf(err) != exit.Data {
			t.Errorf("a broker would start: %v", err)
		}
	})
}

// A file that cannot be read is no reason to start, and one of a newer version says so.
func TestADamagedUnfinishedRestoreIsNoBroker(t *testing.T) {
	mem := vfs.Memory()
	must.OK(t, mem.MkdirAll("/data"))
	must.OK(t, vfs.WriteFile(mem, "/data/restore.unfinished", []byte("x"), true))
	if _, err := dirsOf(mem, "/one").Lock(); exit.CodeOf(err) != exit.Data {
		t.Errorf("damaged: %v", err)
	}
	must.OK(t, mem.Remove("/data/restore.unfinished"))
	must.OK(t, statefile.Write(mem, "/data/restore.unfinished", unfinishedKind, unfinishedVersion+1, []byte("{}")))
	if _, err := dirsOf(mem, "/one").Lock(); exit.CodeOf(err) != exit.Data || !strings.Contains(err.Error(), "newer") {
		t.Errorf("newer: %v", err)
	}
}
