package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// seedGap is how long a seed may be silent until the next one is asked, too.
const seedGap = time.Second

// reach waits until a seed answers, and returns nil, or the error of each seed. It asks them in
// their order. A broker that hangs accepts connections and never answers, so reach asks the next
// seed after a failure or some silence, and still waits for those before. Afterwards, the client
// forgets the seeds that did not answer. patience is the time until ctx ends.
func (a *App) reach(ctx context.Context, cl *kgo.Client, patience time.Duration) []error {
	type answer struct {
		seed int
		err  error
	}
	seeds, all := a.Settings.Seeds(), cl.SeedBrokers()
	answers := make(chan answer, len(all))
	silence := time.NewTicker(min(seedGap, patience/time.Duration(len(all)+1)))
	defer silence.Stop()
	failed := make([]error, len(all))
	for asked, left := 0, len(all); left > 0; {
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
				left--
				continue
			}
			if asked > 1 {
				// The seeds were checked with the settings, so there is no error.
				_ = cl.UpdateSeedBrokers(append([]string{seeds[got.seed]}, seeds[asked:]...)...)
			}
			return nil
		}
	}
	return failed
}

// late reports whether err means that there was no answer in time.
func late(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// reasons returns the errors of reach as one. Of several seeds it names each.
func (a *App) reasons(failed []error) (all error) {
	if len(failed) == 1 {
		return withoutGuess(failed[0])
	}
	for i, at := range a.Settings.Seeds() {
		err := fmt.Errorf("%s: %w", at, withoutGuess(failed[i]))
		if late(failed[i]) {
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
