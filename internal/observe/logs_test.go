package observe

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/replica"
)

// A log that is being created is not a fault until its creation takes too long.
func TestALogThatIsBeingCreatedIsNoFault(t *testing.T) {
	now := time.Now()
	young := fmt.Errorf("topic t: %w", &replica.CreatingError{Partition: "t-0", Since: now.Add(-time.Second)})
	old := &replica.CreatingError{Partition: "t-0", Since: now.Add(-creationTime)}
	for _, c := range []struct {
		err  error
		want bool
	}{{young, true}, {old, false}, {replica.ErrOffline, false}} {
		if got := creating(c.err, now); got != c.want {
			t.Errorf("creating(%v) = %v", c.err, got)
		}
	}
	if !errors.Is(young, replica.ErrOffline) {
		t.Error("clients would not get the error of an offline partition")
	}
}
