package observe

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/view"
)

// What an error means is known where the error is: the view has it besides the text.
func TestAFullDiskIsNoText(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("%w: write segment: %w", storage.ErrFailed, syscall.ENOSPC), true},
		{fmt.Errorf("write segment: %w", syscall.EDQUOT), true},
		{errors.New("no space left on device"), false},
	} {
		x := view.Log{Topic: "t"}
		if failed(&x, c.err); x.Full != c.want || x.Error == "" || x.Cause == "" {
			t.Errorf("%v: %+v", c.err, x)
		}
	}
}

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
