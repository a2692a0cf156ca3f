package replica

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metadata"
)

// A change of the metadata leader is no error, unless it takes long.
func TestMetadataWithoutALeaderAreAnErrorLater(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []string
	}{
		{metadata.ErrUnknown, []string{"1 warn", "5 error"}},
		{metadata.ErrUnavailable, []string{"1 warn", "5 error"}},
		{errors.New("disk"), []string{"1 error"}},
	} {
		core, logs := observer.New(zap.InfoLevel)
		m := NewManager(Options{Logger: zap.New(core)})
		var got []string
		for try := range 7 {
			m.recorder.outcome(newChanges(), fmt.Errorf("record: %w", c.err))
			for _, e := range logs.TakeAll() {
				got = append(got, fmt.Sprint(try+1, " ", e.Level))
			}
		}
		if err := m.Close(t.Context()); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q (%v)", c.err, got, c.want, err)
		}
	}
}
