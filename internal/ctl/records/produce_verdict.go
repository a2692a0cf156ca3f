package records

import (
	"maps"
	"regexp"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// verdicts remembers what brokers last answered for each partition. The client
// repeats what is refused with an error that may pass until the record's time is
// over, and says then only that it is over. Its log is the one place where it tells
// the error; where its words change, the errors are as they were without this.
type verdicts struct {
	// answer finds "3{retrying@-1,1(KAFKA_STORAGE_ERROR: …", and "3{" of an answer
	// without an error.
	answer *regexp.Regexp

	mu   sync.Mutex
	last map[int32]*kerr.Error
}

func newVerdicts() *verdicts {
	return &verdicts{
		answer: regexp.MustCompile(`(?:^|[\[ ])(\d+)\{(?:retrying@-?\d+,\d+\(([A-Z_]+))?`),
		last:   map[int32]*kerr.Error{},
	}
}

// Level has the client tell each answer.
func (*verdicts) Level() kgo.LogLevel { return kgo.LogLevelDebug }

// Log keeps what concerns answers.
func (v *verdicts) Log(_ kgo.LogLevel, message string, pairs ...any) {
	if message != "produced" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := 0; i+1 < len(pairs); i += 2 {
		text, ok := pairs[i+1].(string)
		if !ok || pairs[i] != "to" {
			continue
		}
		for _, found := range v.answer.FindAllStringSubmatch(text, -1) {
			p, err := strconv.ParseInt(found[1], 10, 32)
			if err != nil {
				continue
			}
			delete(v.last, int32(p))
			if k := named(found[2]); k != nil {
				v.last[int32(p)] = k
			}
		}
	}
}

// of is what was last answered for a partition; nil where that was no error. A
// record that went to none yet has that of any.
func (v *verdicts) of(partition int32) *kerr.Error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if partition < 0 {
		for k := range maps.Values(v.last) {
			return k
		}
	}
	return v.last[partition]
}

// named is the error with a name of the protocol; nil for none.
func named(name string) *kerr.Error {
	if name == "" {
		return nil
	}
	for code := int16(1); code < 1000; code++ {
		if k := kerr.TypedErrorForCode(code); k != nil && k.Message == name {
			return k
		}
	}
	return nil
}
