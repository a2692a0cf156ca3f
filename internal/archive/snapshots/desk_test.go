package snapshots

import (
	"context"
	"errors"
	"testing"

	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/metadata"
)

// restarted is a broker that has begun anew since its upload began.
type restarted struct{ Uploads }

func (restarted) Progress(int64, int) (writer.Progress, error) {
	return writer.Progress{}, writer.ErrUnknown
}

// The controller learns at once that a broker has begun anew, and not when it is silent for long.
func TestAControllerLearnsThatAnUploadIsUnknown(t *testing.T) {
	other := NewDesk(DeskOptions{Self: 2, Uploads: func() (Uploads, error) { return restarted{}, nil }})
	d := NewDesk(DeskOptions{Self: 1, Image: func() *metadata.Image { return nil },
		Ask: func(ctx context.Context, _ *metadata.Image, _ int32, body []byte) ([]byte, error) {
			answer, err := other.Handle(ctx, 1, body)
			if err != nil {
				err = errors.New(err.Error()) // only its text reaches the controller
			}
			return answer, err
		}})
	if _, err := d.Peer(2).Progress(t.Context(), 7, 0); !errors.Is(err, writer.ErrUnknown) {
		t.Errorf("%v", err)
	}
}
