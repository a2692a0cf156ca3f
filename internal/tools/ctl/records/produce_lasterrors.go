package records

import (
	"maps"
	"regexp"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lastErrors records the broker's last error for each partition. The client retries retriable
// errors until the record's time is over, and then reports only that. Its debug log is the only
// place with the error. If the log's wording changes, errors lack this detail.
type lastErrors struct {
	// answer matches "3{retrying@-1,1(KAFKA_STORAGE_ERROR: …", and "3{" of an answer without an
	// error.
	answer *regexp.Regexp

	mu   sync.Mutex
	last map[int32]*kerr.Error
}

func newLastErrors() *lastErrors {
	return &lastErrors{
		answer: regexp.MustCompile(`(?:^|[\[ ])(\d+)\{(?:retrying@-?\d+,\d+\(([A-Z_]+))?`),
		last:   map[int32]*kerr.Error{},
	}
}

// Level implements kgo.Logger. The client logs each answer at debug level.
func (*lastErrors) Level() kgo.LogLevel { return kgo.LogLevelDebug }

// Log implements kgo.Logger.
func (v *lastErrors) Log(_ kgo.LogLevel, message string, pairs ...any) {
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

// of returns the last error for a partition, or nil. For a record without a partition it returns
// any partition's error.
func (v *lastErrors) of(partition int32) *kerr.Error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if partition < 0 {
		for k := range maps.Values(v.last) {
			return k
		}
	}
	return v.last[partition]
}

// named returns the protocol error with this name, or nil.
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
