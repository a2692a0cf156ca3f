package observe

import (
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// The checks have to know of each change of brokers that clients are shown.
func TestChangesOfBrokersAreAnnounced(t *testing.T) {
	var got []int64
	c := &Cluster{Changed: func(revision int64) { got = append(got, revision) }}
	for _, x := range []struct {
		version int64
		delta   metadata.Delta
	}{{1, metadata.Delta{Brokers: true}}, {2, metadata.Delta{Cluster: true}}, {3, metadata.Delta{Liveness: []int32{2}}}} {
		img, err := metadata.Load(nil, x.version)
		must.OK(t, err)
		must.OK(t, c.Follow(t.Context(), metadata.Empty(), img, &x.delta))
	}
	if !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("announced %d, want 1 and 3", got)
	}
}
