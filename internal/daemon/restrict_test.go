package daemon

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Only the broker's own user can read what a broker writes. Metadata that others can read, for
// example after a restore, is closed to them at the next start, and the log says so.
func TestOthersReadNoMetadata(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	start := func() *observer.ObservedLogs {
		t.Helper()
		core, logs := observer.New(zapcore.InfoLevel)
		cfg, err := resolve.Load(config.Input{Flags: map[string]string{config.KeyDataDir: data, config.KeyListen: "127.0.0.1:0",
			config.KeyAdminListen: "off"}})
		must.OK(t, err)
		b, err := Start(t.Context(), Options{Config: cfg, FS: vfs.OS(), Log: zap.New(core), Level: zap.NewAtomicLevel(), Version: "test",
			JournalFileSize: 1 << 20, JournalBytes: 16 << 20})
		must.OK(t, err)
		must.OK(t, b.Close())
		return logs.FilterMessage("the metadata directory is no longer readable by other users")
	}
	if said := start().Len(); said != 0 {
		t.Errorf("the first start closed %d directories", said)
	}
	for name, mode := range modes(t, data) {
		if mode.Perm()&0o077 != 0 {
			t.Errorf("others have rights on %s: %v", name, mode)
		}
	}
	metadata, copied := filepath.Join(data, resolve.MetadataDir), filepath.Join(data, resolve.LogsDir, "metadata.copy")
	for _, dir := range []string{metadata, copied} {
		all := modes(t, dir)
		if len(all) < 2 {
			t.Fatalf("%s has %d entries", dir, len(all))
		}
		for name, mode := range all {
			must.OK(t, os.Chmod(name, mode.Perm()|0o044))
		}
	}
	if said := start().Len(); said != 2 {
		t.Errorf("%d directories were closed, want the metadata and its copy", said)
	}
	for _, dir := range []string{metadata, copied} {
		for name, mode := range modes(t, dir) {
			if mode.Perm()&0o077 != 0 {
				t.Errorf("after the second start others have rights on %s: %v", name, mode)
			}
		}
	}
}

// modes returns the modes of everything below a directory, and its own.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	all := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all[name] = info.Mode()
		}
		return err
	})
	must.OK(t, err)
	return all
}
