package records

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// batchOverhead is the approximate size of a batch without its records, in bytes.
const batchOverhead = 200

// refused returns the error for a line that was not acknowledged. said is the broker's last error
// for its partition, or nil.
func (o *produceOptions) refused(line int, topic string, rec *kgo.Record, err error, said *kerr.Error) error {
	what := fmt.Sprintf("line %d to %s", line, topic)
	expired := errors.Is(err, errUnanswered) || errors.Is(err, kgo.ErrRecordTimeout)
	if expired && said == nil {
		errors.As(err, &said)
	}
	switch size := len(rec.Key) + len(rec.Value); {
	case expired && said != nil:
		return app.Refused(what, said, app.Description(said)+", the broker's last answer within --timeout")
	case expired:
		return fmt.Errorf("%s: %w; is the broker running? chronikctl cluster health shows problems, --timeout allows more time", what,
			errUnanswered)
	case errors.Is(err, kerr.MessageTooLarge) && size+batchOverhead > int(o.batchBytes):
		return fmt.Errorf(
			"%s: the record of %d bytes exceeds --max-batch-bytes %d; raise it, and the topic's max.message.bytes if that is smaller",
			what, size, o.batchBytes)
	case strings.Contains(err.Error(), "invalid record partitioning choice"): // an error of the client without an exported name
		return fmt.Errorf("%s: the topic has no partition %d; chronikctl topic describe %s shows its partitions", what, rec.Partition,
			topic)
	}
	return app.Refused(what, app.Needs(err, app.OnTopic("write", topic)), "")
}
