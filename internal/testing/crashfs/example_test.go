package crashfs_test

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// replace rewrites a small state file: temporary name, sync, rename, sync of the directory. If sync
// is false it omits the first sync.
func replace(f vfs.FS, content string, sync bool) error {
	if err := f.RemoveAll("/state.tmp"); err != nil {
		return err
	}
	h, err := f.Create("/state.tmp")
	if err != nil {
		return err
	}
	if _, err := h.WriteAt([]byte(content), 0); err != nil {
		return errors.Join(err, h.Close())
	}
	if sync {
		if err := h.Datasync(); err != nil {
			return errors.Join(err, h.Close())
		}
	}
	if err := h.Close(); err != nil {
		return err
	}
	if err := f.Rename("/state.tmp", "/state"); err != nil {
		return err
	}
	return f.SyncDir("/")
}

func read(f vfs.FS) (string, error) {
	h, err := f.Open("/state")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	p := make([]byte, 9)
	n, _ := h.ReadAt(p, 0)
	return string(p[:n]), h.Close()
}

// The example loses power at every call of a workload, in every mode, and checks that the file has
// the acknowledged value or the one being written.
func Example() {
	for _, sync := range []bool{true, false} {
		wrong := 0
		for crash := 0; ; crash++ {
			f := crashfs.New(uint64(crash))
			f.CrashDuring(crash + 1)
			acked, next := "", ""
			for _, next = range []string{"one", "two", "three"} {
				if err := replace(f, next, sync); err != nil {
					break
				}
				acked = next
			}
			for seed := range uint64(20) {
				for _, mode := range crashfs.Modes() {
					got, err := read(f.PowerLossImage(mode, seed))
					if err != nil || got != acked && got != next {
						wrong++
					}
				}
			}
			if !f.Crashed() {
				fmt.Printf("sync %v: %d calls, wrong images: %v\n", sync, crash, wrong > 0)
				break
			}
		}
	}
	// Output:
	// sync true: 15 calls, wrong images: false
	// sync false: 12 calls, wrong images: true
}
