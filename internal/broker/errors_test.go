package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
)

func TestAnUnknownErrorIsNeverSuccess(t *testing.T) {
	for _, err := range []error{errors.New("an unexpected error"), protocolErrorf(&kerr.Error{}, "code 0")} {
		if c := code(err); c != kerr.UnknownServerError.Code {
			t.Errorf("%#v has code %d", err, c)
		}
	}
	if c := code(nil); c != 0 {
		t.Errorf("no error has code %d", c)
	}
}

// What handlers answer differently from the table.
func TestDeviationsFromTheTable(t *testing.T) {
	deleted := fmt.Errorf("%w: %w", replica.ErrNotLeader, replica.ErrDeleted)
	for _, c := range []struct {
		name string
		got  int16
		want *kerr.Error
	}{
		{"by name", code(deleted), kerr.UnknownTopicOrPartition},
		{"by id", codeByID(deleted), kerr.UnknownTopicID},
		{"by id, another error", codeByID(replica.ErrNotLeader), kerr.NotLeaderForPartition},
		{"a change", code(changeError(metadata.ErrClosed)), kerr.NotController},
		{"a change, too large", code(changeError(metadata.ErrTooLarge)), kerr.PolicyViolation},
		{"timeout", code(fmt.Errorf("%w: because", errTimedOut)), kerr.RequestTimedOut},
	} {
		if c.got != c.want.Code {
			t.Errorf("%s: code %d, want %v", c.name, c.got, c.want)
		}
	}
}

// A change that a stopping broker refuses says so, in the text that belongs to its code.
func TestAStoppingBrokerSaysSo(t *testing.T) {
	for _, err := range []error{metadata.ErrClosed, context.Canceled} {
		if n, msg := verdict(err); n != kerr.NotController.Code || msg == nil || !strings.HasPrefix(*msg, "the broker is stopping: ") {
			t.Errorf("%v: code %d, %v", err, n, msg)
		}
	}
}
