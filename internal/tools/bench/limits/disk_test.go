package limits

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// Every measured time is that of a write and the following sync of the measured file, and the
// bandwidth is the bytes divided by exactly these times.
func TestDiskCountsWritesAndSyncsAlone(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		syncs := map[string][]int64{}
		slow := func(f *os.File) error {
			st, err := f.Stat()
			if err != nil {
				return err
			}
			name := filepath.Base(f.Name())
			syncs[name] = append(syncs[name], st.Size())
			time.Sleep(time.Millisecond) // of the bubble's clock
			return nil
		}
		r, err := disk(t.Context(), DiskConfig{Dir: dir, Duration: 10 * time.Millisecond, FileSize: 4 << 20}, slow)
		must.OK(t, err)
		if len(r.Rows) != 6 {
			t.Fatalf("%d rows, not 3 sizes over 2 patterns", len(r.Rows))
		}
		for _, row := range r.Rows {
			if row.Syncs != 10 || row.Elapsed != 10*time.Millisecond {
				t.Errorf("%d B %s: %d syncs in %v, not the 10 of a millisecond each", row.Size, row.Pattern, row.Syncs, row.Elapsed)
			}
			if want := float64(row.Size) * 1000; row.BytesPerSecond != want {
				t.Errorf("%d B %s: %.0f B/s, not %.0f", row.Size, row.Pattern, row.BytesPerSecond, want)
			}
			for _, l := range []struct{ p50, max float64 }{{row.Sync.P50, row.Sync.Max}, {row.Both.P50, row.Both.Max}} {
				if l.p50 < 999 || l.p50 > 1001 || l.max < 999 || l.max > 1001 {
					t.Errorf("%d B %s: p50 %.1f and max %.1f us, not the millisecond of the sync", row.Size, row.Pattern, l.p50, l.max)
				}
			}
		}
		checkPatterns(t, syncs)
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v left behind, %v", left, err)
	}
}

// checkPatterns checks that the written file kept its size and that the appended file grew with
// each sync, at most to its limit.
func checkPatterns(t *testing.T, syncs map[string][]int64) {
	t.Helper()
	const bound = 4 << 20
	for _, size := range syncs[Written] {
		if size != bound {
			t.Errorf("a sync of the written file at %d bytes: it has %d", size, bound)
		}
	}
	grown := syncs[Appending]
	var want []int64
	for _, write := range []int64{blockSize, smallSize, groupSize} {
		for i := range int64(10) {
			want = append(want, (i%(bound/write)+1)*write)
		}
	}
	if !slices.Equal(grown, want) {
		t.Errorf("the appended file was synced at %v, not at %v", grown, want)
	}
}

// At a rate, writes begin when they are due, and one slow sync delays those behind it: their times
// count from when they were due, only for the sizes and the pattern that were asked for.
func TestDiskAtARate(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		slow := func(*os.File) error {
			d := 200 * time.Microsecond
			if n++; n == 3 {
				d = 3500 * time.Microsecond // due at 2 ms, ends at 5.5: those of 3, 4 and 5 ms are late
			}
			time.Sleep(d)
			return nil
		}
		c := DiskConfig{Dir: dir, Duration: 10 * time.Millisecond, FileSize: 1 << 20, Sizes: []int{1000}, Pattern: Appending, Rate: 1000}
		r, err := disk(t.Context(), c, slow)
		must.OK(t, err)
		if len(r.Rows) != 1 || r.Rows[0].Size != 1000 || r.Rows[0].Pattern != Appending {
			t.Fatalf("%+v", r.Rows)
		}
		row := r.Rows[0]
		if row.Syncs != 11 || row.Elapsed != 10200*time.Microsecond {
			t.Errorf("%d syncs in %v, not one at each millisecond", row.Syncs, row.Elapsed)
		}
		// 200 µs but for 3,500, 2,700, 1,900 and 1,100.
		if row.Both.P50 > 201 || row.Both.P90 < 2690 || row.Both.P90 > 2710 || row.Both.Max < 3490 {
			t.Errorf("write and sync: %+v", row.Both)
		}
		if row.Sync.P90 > 201 {
			t.Errorf("sync: %+v", row.Sync)
		}
	})
}

// A failed sync gives no figure.
func TestDiskFailsWithTheSync(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("input/output error")
	r, err := disk(t.Context(), DiskConfig{Dir: dir, Duration: time.Millisecond, FileSize: 1 << 20}, func(*os.File) error { return broken })
	if !errors.Is(err, broken) || r != nil {
		t.Fatalf("%v, %v of a disk that does not sync", r, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v left behind, %v", left, err)
	}
}

func TestDiskRefuses(t *testing.T) {
	cases := map[string]struct {
		c    DiskConfig
		want string
	}{
		"no duration":    {DiskConfig{Dir: t.TempDir()}, "duration"},
		"small file":     {DiskConfig{Dir: t.TempDir(), Duration: 1, FileSize: 1}, "--file-size"},
		"large file":     {DiskConfig{Dir: t.TempDir(), Duration: 1, FileSize: 1 << 40}, "--file-size"},
		"empty write":    {DiskConfig{Dir: t.TempDir(), Duration: 1, Sizes: []int{4096, 0}}, "--disk-sizes"},
		"large write":    {DiskConfig{Dir: t.TempDir(), Duration: 1, Sizes: []int{1<<20 + 1}}, "--disk-sizes"},
		"pattern":        {DiskConfig{Dir: t.TempDir(), Duration: 1, Pattern: "random"}, "--disk-pattern"},
		"no rate":        {DiskConfig{Dir: t.TempDir(), Duration: 1, Rate: math.NaN()}, "--disk-rate"},
		"high rate":      {DiskConfig{Dir: t.TempDir(), Duration: 1, Rate: 1e9}, "--disk-rate"},
		"no such folder": {DiskConfig{Dir: filepath.Join(t.TempDir(), "none"), Duration: 1}, "create a directory"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Disk(t.Context(), tc.c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want one about %q", err, tc.want)
			}
		})
	}
}

// An interrupted measurement ends soon and cleans up.
func TestDiskEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := disk(ctx, DiskConfig{Dir: dir, Duration: time.Hour, FileSize: 1 << 20}, func(*os.File) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v left behind, %v", left, err)
	}
}

// The real calls work on the file system of the tests.
func TestDiskReal(t *testing.T) {
	r, err := Disk(t.Context(), DiskConfig{Dir: t.TempDir(), Duration: time.Millisecond, FileSize: 1 << 20})
	must.OK(t, err)
	for _, row := range r.Rows {
		if row.Syncs == 0 || row.Sync.Count != row.Syncs || row.Both.Count != row.Syncs || row.Both.P50 < row.Sync.P50 {
			t.Errorf("%+v", row)
		}
	}
}
