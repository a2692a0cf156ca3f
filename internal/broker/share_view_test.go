package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/shareleader"
)

// The remedy depends on why a state is not loaded.
func TestWhyAStateIsNotLoadedIsShown(t *testing.T) {
	for _, c := range []struct {
		code           *kerr.Error
		failed, absent bool
	}{{nil, false, false}, {kerr.KafkaStorageError, true, false}, {kerr.InvalidRequest, false, true},
		{kerr.UnknownServerError, false, false}} {
		s := slowShare(&shareleader.Surveyed{Failed: c.code, Loading: time.Second, Unloaded: "why"}, &metadata.Topic{Name: "t"})
		if s.Failed != c.failed || s.Absent != c.absent || s.Loading != time.Second || s.Unloaded != "why" {
			t.Errorf("%v is shown as %+v", c.code, s)
		}
	}
}
