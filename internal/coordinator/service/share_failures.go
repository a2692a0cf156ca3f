package service

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/series"
)

// shareFailures logs which states of share groups cannot be begun or removed: group coordinators
// repeat the requests, and members only see that they get no partitions.
type shareFailures struct {
	log   *zap.Logger // nil: nothing is logged
	image func() *metadata.Image
	all   series.Failures
}

// namedPartitions bounds the partitions that a line names.
const namedPartitions = 20

// note notes the results of a request, before the group coordinator gets them. A single failure is
// not logged: the metadata of the share coordinator may be behind, or it is loading.
func (f *shareFailures) note(q *shareRequest, errs []*kerr.Error) {
	if f.log == nil {
		return
	}
	failed := map[[16]byte]*kerr.Error{}
	for i, err := range errs {
		if topic := q.partitions[i].Topic; failed[topic] == nil && err != kerr.FencedLeaderEpoch { // of a former coordinator
			failed[topic] = err
		}
	}
	for topic, code := range failed {
		key := series.Key(q.what, q.group, string(topic[:]))
		if code == kerr.CoordinatorNotAvailable || code == kerr.CoordinatorLoadInProgress {
			key = series.Key(q.what, code.Message) // of all groups, of which a line names one
		}
		if code == nil {
			f.all.Ended(key)
			continue
		}
		n, say := f.all.Failed(key, code)
		if n == 1 || !say {
			continue
		}
		var partitions []int32
		for i, p := range q.partitions {
			if p.Topic == topic && errs[i] == code && len(partitions) < namedPartitions {
				partitions = append(partitions, p.Partition)
			}
		}
		slices.Sort(partitions)
		f.log.Warn("states of a share group cannot be "+q.what+", trying again", zap.String("group", q.group),
			zap.String("topic", f.topic(topic)), zap.Int32s("partitions", partitions), zap.Int("failures", n),
			zap.String("reason", whyNoState(code)), zap.String("code", code.Message))
	}
}

func (f *shareFailures) topic(id [16]byte) string {
	if t := f.image().TopicByID(id); t != nil {
		return t.Name
	}
	return metadata.FormatID(id)
}

// whyNoState returns what an error means that a share coordinator, or the way to it, has for a
// state that is to be begun or removed. The texts of Kafka are about clients.
func whyNoState(code *kerr.Error) string {
	switch code {
	case kerr.CoordinatorNotAvailable:
		return "no share coordinator has answered; chronikctl cluster health names what " + SharesTopic + " lacks"
	case kerr.CoordinatorLoadInProgress:
		return "the share coordinator is loading, or has no memory for more states"
	case kerr.KafkaStorageError:
		return "the stored state has lost records; set the position with chronikctl group reset"
	case kerr.UnknownTopicOrPartition:
		return "the share coordinator knows no such topic or partition"
	}
	return code.Description
}
