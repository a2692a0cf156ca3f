package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/cli"
)

// Explain adds to an error of the first requests of a run what to do about it:
// the brokers' addresses may be wrong, or nobody may be there, which has an exit
// code of its own.
func Explain(brokers []string, err error) error {
	switch {
	case err == nil:
		return nil
	case unanswered(err) && slices.ContainsFunc(brokers, func(at string) bool {
		return cli.SpeaksHTTP(context.Background(), new(net.Dialer).DialContext, at)
	}):
		return cli.WithCode(cli.ExitUnreachable,
			fmt.Errorf("no answer from %s (--bootstrap-servers): HTTP is spoken there, not Kafka's protocol; that may be the admin port: "+
				"name the one for clients", strings.Join(brokers, ",")))
	case unanswered(err):
		return cli.WithCode(cli.ExitUnreachable,
			fmt.Errorf("no answer from %s (--bootstrap-servers): %w; is a broker running there?", strings.Join(brokers, ","), err))
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%w; add --create-topic to make it, or name another with --topic", err)
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return fmt.Errorf("%w; give another --replication-factor", err)
	case errors.Is(err, kerr.InvalidTopicException):
		return fmt.Errorf("%w; give another --topic, of 1 to 249 letters, digits, '.', '_' and '-'", err)
	case errors.Is(err, kerr.InvalidConfig):
		return fmt.Errorf("%w; give another --topic-config", err)
	}
	return err
}

// unanswered reports whether an error is not an answer of a broker.
func unanswered(err error) bool {
	var op *net.OpError
	var kind *kerr.Error
	switch {
	case errors.As(err, &kind):
		return false
	case errors.As(err, &op), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF):
		return true
	}
	return strings.Contains(err.Error(), "the beginning of an HTTP response") // the client's error has no exported name
}

// refusal is a broker's error in its own words, without the point at their end:
// a remedy follows.
type refusal struct {
	err     error
	message string // what the broker said beyond the error's name; may be empty
}

func (r *refusal) Unwrap() error { return r.err }

func (r *refusal) Error() string {
	text := r.err.Error()
	if k := (*kerr.Error)(nil); errors.As(r.err, &k) {
		text = k.Message + ": " + cmp.Or(r.message, k.Description)
	}
	return strings.TrimRight(text, ". ")
}
