package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/view"
)

// errOther: a broker ignores requests about snapshots: it is of another kind, or an older version.
var errOther = errors.New("the broker knows no snapshots; upgrade it")

// read returns the snapshots of the cluster, in the order of the answer.
func read(ctx context.Context, cl *kgo.Client) (*view.SnapshotList, error) {
	x := new(view.SnapshotList)
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.UnknownTags.Set(view.SnapshotTag, []byte{})
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil {
		err = decode(&resp.UnknownTags, x)
	}
	if err != nil {
		return nil, app.Refused("list snapshots", app.BrokerError(err), "")
	}
	return x, nil
}

// decode decodes an answer about snapshots.
func decode(tags *kmsg.Tags, v any) error {
	err := errOther
	tags.Each(func(tag uint32, p []byte) {
		if tag == view.SnapshotTag {
			err = json.Unmarshal(p, v)
		}
	})
	return err
}

// ask sends a request and returns its answer.
func ask(ctx context.Context, cl *kgo.Client, what string, q view.SnapshotAsk) (answer view.SnapshotAnswer, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return answer, err
	}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.UnknownTags.Set(view.SnapshotTag, body)
	resp, err := req.RequestWith(ctx, cl)
	message := ""
	if err == nil {
		err, message = kerr.ErrorForCode(resp.ErrorCode), app.OrEmpty(resp.ErrorMessage)
	}
	if err == nil {
		err = decode(&resp.UnknownTags, &answer)
	}
	if err != nil {
		return answer, app.Refused(what, app.BrokerError(err), message)
	}
	if answer.Error != "" {
		return answer, app.WithCode(app.ExitFailed, fmt.Errorf("%s: %s", what, answer.Error))
	}
	return answer, nil
}

const (
	// pollEvery is the pause between two questions for the outcome of a request.
	pollEvery = 200 * time.Millisecond
	// silence is how long the metadata leader may not answer.
	silence = 30 * time.Second
)

// wait waits for the outcome of a request, at most until ctx ends. It fails if another broker leads
// the metadata then, which knows nothing of the request.
func wait(ctx context.Context, cl *kgo.Client, what string, of view.SnapshotAnswer) (view.SnapshotOutcome, error) {
	none := view.SnapshotOutcome{}
	heard := time.Now()
	for {
		x, err := read(ctx, cl)
		switch {
		case err != nil:
			return none, err
		case x.Service == nil && time.Since(heard) > silence:
			return none, app.WithCode(app.ExitUnreachable, fmt.Errorf("%s: %s", what, x.Error))
		case x.Service == nil:
		case x.Service.Term != of.Term:
			return none, app.WithCode(app.ExitFailed, fmt.Errorf("%s: another broker leads the metadata now, and does not know "+
				"the request; run the command again", what))
		default:
			heard = time.Now()
			for _, o := range x.Service.Outcomes {
				if o.ID == of.ID {
					return o, nil
				}
			}
		}
		if err := pause.Sleep(ctx, pollEvery); err != nil {
			return none, fmt.Errorf("%s: %w; it continues in the cluster, and chronikctl snapshot list shows it", what, err)
		}
	}
}

// carryOut sends a request and waits for its outcome.
func carryOut(ctx context.Context, cl *kgo.Client, what string, q view.SnapshotAsk) (view.SnapshotOutcome, error) {
	answer, err := ask(ctx, cl, what, q)
	if err != nil {
		return view.SnapshotOutcome{}, err
	}
	o, err := wait(ctx, cl, what, answer)
	if err == nil && o.Error != "" {
		code := app.ExitFailed
		if o.Offline {
			code = app.ExitUnhealthy
		}
		err = app.WithCode(code, fmt.Errorf("%s: %s", what, o.Error))
	}
	return o, err
}

// number parses the number of a snapshot, which is at least 1.
func number(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return 0, app.Usage("%q is not the number of a snapshot; chronikctl snapshot list shows them", s)
	}
	return n, nil
}
