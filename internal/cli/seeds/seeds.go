// Package seeds finds out which of the brokers that a user has named answers, without waiting long
// for one that hangs. It asks the next one after a failure, or after at most a second of silence,
// and returns the error of each if none answers before its context ends. It knows neither commands
// nor contexts.
package seeds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// gap is how long a seed may be silent until the next one is also asked.
const gap = time.Second

// Reach waits until a seed of cl answers, and returns the seeds for other clients: the one that
// answered, and then those that were not asked. If none answered, it returns the error of each
// seed. It asks them in their order, which is that of addresses. A broker that hangs accepts
// connections and never answers, so Reach asks the next seed after a failure or some silence, and
// still waits for those before. Afterwards, cl has only the seed that answered: one that was not
// asked may hang, and cl finds the other brokers in the metadata. patience is the time until ctx
// ends, which must have a deadline.
func Reach(ctx context.Context, cl *kgo.Client, addresses []string, patience time.Duration) (left []string, failed []error) {
	type answer struct {
		seed int
		err  error
	}
	all := cl.SeedBrokers()
	answers := make(chan answer, len(all))
	silence := time.NewTicker(min(gap, patience/time.Duration(len(all)+1)))
	defer silence.Stop()
	failed = make([]error, len(all))
	for asked, waiting := 0, len(all); waiting > 0; {
		if seed := asked; seed < len(all) {
			asked++
			go func() {
				req := kmsg.NewPtrMetadataRequest()
				req.Topics = []kmsg.MetadataRequestTopic{} // none
				_, err := all[seed].Request(ctx, req)
				answers <- answer{seed, err}
			}()
		}
		select {
		case <-silence.C:
		case got := <-answers:
			if got.err != nil {
				failed[got.seed] = got.err
				waiting--
				continue
			}
			left = append([]string{addresses[got.seed]}, addresses[asked:]...)
			if len(all) > 1 {
				// The client was made with this address, so there is no error.
				_ = cl.UpdateSeedBrokers(left[0])
			}
			return left, nil
		}
	}
	return nil, failed
}

// Late reports whether err means that there was no answer in time.
func Late(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Join returns the errors of Reach as one. Of several seeds it names each.
func Join(addresses []string, failed []error) (all error) {
	if len(failed) == 1 {
		return withoutGuess(failed[0])
	}
	for i, at := range addresses {
		err := fmt.Errorf("%s: %w", at, withoutGuess(failed[i]))
		if Late(failed[i]) {
			err = errors.New(at + ": no answer in time")
		}
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w, %w", all, err)
		}
	}
	return all
}

// ErrAlert means that a broker answered plain text with an alert of TLS.
var ErrAlert = errors.New("it answered with an alert of TLS")

// withoutGuess removes the client library's own guess at the reason: the callers know the settings
// and guess better.
func withoutGuess(err error) error {
	if eof := (*kgo.ErrFirstReadEOF)(nil); errors.As(err, &eof) {
		return io.EOF
	}
	if err != nil && strings.Contains(err.Error(), "appear to be a tls alert record") { // the library's error has no exported name
		return ErrAlert
	}
	return err
}
