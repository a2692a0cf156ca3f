package daemon

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// The copy of the metadata is outside of data.dir, if a log directory is, and has the same content.
// A broker does not start with metadata that is older than the copy.
func TestTheMetadataHasACopy(t *testing.T) {
	const dirs, at = "log.dirs=/data/logs,/two", "/two/metadata.copy"
	mem := vfs.Memory()
	b, _ := startHere(t, mem, dirs)
	fill(t, b, "first", 1, 1)
	older, err := raftstore.Read(mem, "/data/metadata")
	must.OK(t, err)
	fill(t, b, "second", 1, 1)
	must.OK(t, b.Close())
	own, err := raftstore.Read(mem, "/data/metadata")
	copied, cerr := copies.Check(mem, at)
	must.OK(t, errors.Join(err, cerr))
	names := func(keys []metadata.KV) (all []string) {
		for _, kv := range keys {
			all = append(all, kv.Key+"="+string(kv.Value))
		}
		return all
	}
	if own.Revision != copied.Revision || !slices.Equal(names(own.Keys), names(copied.Keys)) {
		t.Errorf("the copy has revision %d, the metadata %d", copied.Revision, own.Revision)
	}
	must.OK(t, mem.RemoveAll("/data/metadata"))
	must.OK(t, raftstore.Begin(mem, "/data/metadata", older.Generation, older.Keys, older.Revision))
	cfg, err := resolve.Load(
		config.Input{
			Set:   []string{dirs},
			Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "off"},
		},
	)
	must.OK(t, err)
	_, err = Start(t.Context(), Options{Config: cfg, FS: mem, Log: zap.NewNop(), Level: zap.NewAtomicLevel(), Version: "test"})
	if !errors.Is(err, copies.ErrOlder) || !strings.Contains(err.Error(), "chronikctl log repair --dir /data --dir /two ") {
		t.Errorf("with older metadata: %v", err)
	}
	if again, err := copies.Check(mem, at); err != nil || again.Revision != copied.Revision {
		t.Errorf("the copy was changed to revision %d, %v", again.Revision, err)
	}
}

// There is one copy: if a start chooses another directory for it, the former copy is removed.
// Otherwise it would be taken for a complete one when the metadata is lost.
func TestAFormerCopyIsRemoved(t *testing.T) {
	const former = "/data/logs/metadata.copy"
	mem := vfs.Memory()
	b, _ := startHere(t, mem)
	fill(t, b, "t", 1, 1)
	must.OK(t, b.Close())
	if c, err := copies.Check(mem, former); err != nil || !c.Used {
		t.Fatalf("the copy: used %t, %v", c.Used, err)
	}
	b, _ = startHere(t, mem, "log.dirs=/data/logs,/two")
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		left, err := copies.Exists(mem, former)
		if err == nil && !left {
			break
		}
		if time.Since(begin) > patience {
			t.Fatalf("the former copy still exists: %t, %v", left, err)
		}
	}
	must.OK(t, b.Close())
	if now, err := copies.Check(mem, "/two/metadata.copy"); err != nil || !now.Used {
		t.Errorf("the new copy: used %t, %v", now.Used, err)
	}
}

// Metadata that consists only of a log without records is lost: a start that took it for the
// metadata of a first start would continue without topics.
func TestALogWithoutASnapshotIsNoMetadata(t *testing.T) {
	mem := vfs.Memory()
	b, _ := startHere(t, mem)
	fill(t, b, "t", 1, 1)
	must.OK(t, errors.Join(b.Close(), mem.RemoveAll("/data/logs/metadata.copy")))
	infos, err := mem.List("/data/metadata")
	must.OK(t, err)
	for _, in := range infos {
		name := "/data/metadata/" + in.Name
		if strings.HasSuffix(name, ".log") {
			f, ferr := mem.Open(name)
			if ferr != nil {
				t.Fatal(ferr)
			}
			err = errors.Join(err, f.Truncate(48), f.Close()) // its header
		} else {
			err = errors.Join(err, mem.Remove(name))
		}
	}
	must.OK(t, err)
	cfg, err := resolve.Load(
		config.Input{Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "off"}},
	)
	must.OK(t, err)
	b, err = Start(t.Context(), Options{Config: cfg, FS: mem, Log: zap.NewNop(), Level: zap.NewAtomicLevel(), Version: "test"})
	if err == nil {
		_ = b.Close()
	}
	if e := (*exit.Error)(nil); !errors.As(err, &e) || e.Code != exit.Data || !strings.Contains(err.Error(), "has no metadata") {
		t.Errorf("the start: %v", err)
	}
}

// A copy that cannot be written causes a finding, and topics can be created nevertheless.
func TestACopyThatCannotBeWrittenIsAFinding(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	disk.Add(errfs.Rule{Ops: errfs.Create, Path: "/data/logs/metadata.copy/*", Err: syscall.EIO})
	b, ask := startHere(t, disk)
	fill(t, b, "t", 1, 1)
	const want = "warn metadata copy of the metadata in /data/logs/metadata.copy: it lacks the latest changes of topics and configs: "
	if text := found(t, ask); !strings.Contains(text, want) || !strings.Contains(text, "input/output error") {
		t.Errorf("findings:\n%s", text)
	}
}
