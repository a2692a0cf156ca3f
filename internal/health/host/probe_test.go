package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A probe measures sync latencies and leaves no files.
func TestADiskIsMeasured(t *testing.T) {
	dir := t.TempDir()
	l, err := Probe(t.Context(), dir)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil || l.Count == 0 || l.Count > probeSyncs || l.Median <= 0 || l.P99 < l.Median {
		t.Errorf("%+v, %v", l, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Probe(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := Probe(t.Context(), dir+"/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestTimesAreJudged(t *testing.T) {
	var took []time.Duration
	for i := range 200 {
		took = append(took, time.Duration(200-i))
	}
	if l := judged(took); l.Count != 200 || l.Median != 101 || l.P99 != 199 {
		t.Errorf("%+v", l)
	}
	if l := judged([]time.Duration{7}); l.Median != 7 || l.P99 != 7 {
		t.Errorf("%+v", l)
	}
}

// broken is a file whose nth sync fails.
type broken struct {
	vfs.File
	n int
}

func (b *broken) Datasync() error {
	if b.n--; b.n < 0 {
		return errors.New("input/output error")
	}
	return nil
}

// A failing disk does not count as a fast one.
func TestADiskThatFailsIsNotMeasured(t *testing.T) {
	for _, n := range []int{0, 1, 100} {
		f, err := vfs.Memory().Create("/f")
		must.OK(t, err)
		if took, err := probe(t.Context(), &broken{f, n}); err == nil || took != nil {
			t.Errorf("sync %d fails: %v, %v", n, took, err)
		}
	}
}
