package records

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/ctl/app"
)

// batchOverhead is about what a batch holds beside its records, in bytes.
const batchOverhead = 200

// refused says what became of a line. said is what the broker last answered for its
// partition, nil for no error.
func (o *produceOptions) refused(line int, topic string, rec *kgo.Record, err error, said *kerr.Error) error {
	what := fmt.Sprintf("line %d to %s", line, topic)
	expired := errors.Is(err, errUnanswered) || errors.Is(err, kgo.ErrRecordTimeout)
	if expired && said == nil {
		errors.As(err, &said)
	}
	switch size := len(rec.Key) + len(rec.Value); {
	case expired && said != nil:
		return app.Refused(what, said, strings.TrimRight(said.Description, ".")+", the broker's last answer before --timeout was over")
	case expired:
		return fmt.Errorf("%s: %w; is the broker running? chronikctl cluster health says what is wrong, --timeout allows more time", what, errUnanswered)
	case errors.Is(err, kerr.MessageTooLarge) && size+batchOverhead > int(o.batchBytes):
		return fmt.Errorf("%s: its record of %d bytes does not go into a batch of --max-batch-bytes %d; raise that, and the topic's max.message.bytes where it is smaller",
			what, size, o.batchBytes)
	case strings.Contains(err.Error(), "invalid record partitioning choice"): // the client's; it has no exported name
		return fmt.Errorf("%s: the topic has no partition %d; chronikctl topic describe %s shows which there are", what, rec.Partition, topic)
	}
	return app.Refused(what, err, "")
}
