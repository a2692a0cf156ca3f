package observe

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
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

// A log has the limit below which clients with acks=all are refused.
func TestALogHasItsMinISR(t *testing.T) {
	w := newWorld(t)
	profiles, err := durability.NewSet()
	must.OK(t, err)
	replicas := replica.NewManager(replica.Options{Self: 1, Storage: new(storage.Manager), Logger: zap.NewNop(),
		Config: func(*metadata.Image, *metadata.Topic) storage.Config { return storage.Config{} }})
	t.Cleanup(func() { must.OK(t, replicas.Close(context.Background())) })
	must.OK(t, replicas.Apply(t.Context(), metadata.Empty(), w.applier.Image(), metadata.Diff(metadata.Empty(), w.applier.Image())))
	s := Logs{Self: 1, Image: w.applier.Image, Replicas: replicas, Storage: new(storage.Manager),
		Settings: replica.NewTopicSettings(replica.SettingsOptions{Self: 1, Logger: zap.NewNop(),
			Configs: configdef.New(configdef.Options{Profiles: profiles}), Static: map[string]string{"min.insync.replicas": "2"}})}
	seen := 0
	s.Each(func(x *view.Log) {
		if seen++; x.MinISR != 2 {
			t.Errorf("%+v", x)
		}
	})
	if seen != 1 {
		t.Errorf("%d logs", seen)
	}
}
