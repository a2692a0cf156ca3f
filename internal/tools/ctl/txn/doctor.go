package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Diagnosis is what find-hanging says about all partitions. The findings are for the check
// "transaction".
type Diagnosis struct {
	Examined string
	Findings []health.Finding
	Failed   []error // why partitions could not be examined
}

// Diagnose looks for hanging transactions. Partitions that cannot be examined are left to other
// checks.
func Diagnose(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client) (*Diagnosis, error) {
	f, err := search(ctx, a, adm, cl, &scope{broker: -1})
	if err != nil {
		return nil, err
	}
	d := &Diagnosis{Examined: text.Count(f.open, "open transaction"), Failed: f.failed}
	for i := range f.found {
		h := &f.found[i]
		who := fmt.Sprintf("producer %d (epoch %d", h.ProducerID, h.Epoch)
		if h.Transactional != "" {
			who += ", transactional id " + h.Transactional
		}
		x := health.OfLog(fmt.Sprintf("%s-%d", h.Topic, h.Partition))
		x.Broker, x.Severity = health.NoBroker, health.Warn
		x.Problem = fmt.Sprintf("a transaction of %s) hangs there, open since offset %d for %s: %s; readers of committed records wait for it, and "+
			"retention and compaction stop", who, h.First, short(time.Duration(h.AgeMs)*time.Millisecond), h.Why)
		x.Remedy = "`" + h.Abort + "` aborts it"
		d.Findings = append(d.Findings, x)
	}
	return d, nil
}
