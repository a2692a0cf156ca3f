package configdef

import (
	"errors"
	"fmt"
	"strings"
)

// DefaultProduceProfile is the name of the default produce profile.
const DefaultProduceProfile = "balanced"

// ErrUnknownProduceProfile is matched by the error of LookupProduceProfile.
var ErrUnknownProduceProfile = errors.New("unknown produce profile")

// ProduceProfile bounds the memory of the layer before the log: requests that clients have sent and
// that are not acknowledged yet. At a bound a broker stops reading the connection, so the client
// feels back-pressure; nothing waits here for batches to form.
type ProduceProfile struct {
	// Name is the value of CHRONIK_PRODUCE_PROFILE.
	Name string
	// Doc is one sentence about the purpose of the profile.
	Doc string
	// ProduceBytes bounds the Produce requests in the broker, in bytes of their frames. One larger
	// frame is admitted alone.
	ProduceBytes int64
	// ConnectionBytes bounds those of one connection. It is a quarter of ProduceBytes, so that it
	// takes four greedy connections to fill the broker.
	ConnectionBytes int64
	// DeferredBytes bounds the bytes of one log directory that are durable in its journal and not
	// yet in their segments; consumers of the tail read them from memory. It is four times
	// ProduceBytes, so that segment writes are large enough to justify a seek, but at most 1 GiB:
	// the journal holds no more.
	DeferredBytes int64
	// ConnectionRequests bounds the unanswered Produce requests of one connection, and so the
	// memory per request rather than per byte. Kafka's clients have 5 in flight.
	ConnectionRequests int
}

const mib = 1 << 20

// ProduceProfiles returns the produce profiles, smallest first. The caller owns the slice.
func ProduceProfiles() []ProduceProfile {
	return []ProduceProfile{
		produceProfile("low-latency", "Little memory and short queues: clients wait in their own buffers.", 16*mib, 32),
		produceProfile("balanced", "The default.", 32*mib, 64),
		produceProfile("high-throughput", "Many producers with large batches.", 128*mib, 128),
		produceProfile("extreme", "Bulk load on a machine with memory to spare.", 512*mib, 256),
	}
}

func produceProfile(name, doc string, produce int64, requests int) ProduceProfile {
	return ProduceProfile{
		Name: name, Doc: doc, ProduceBytes: produce, ConnectionBytes: produce / 4,
		DeferredBytes: min(4*produce, 1024*mib), ConnectionRequests: requests,
	}
}

// LookupProduceProfile returns the profile of that name. The error lists the known names.
func LookupProduceProfile(name string) (ProduceProfile, error) {
	var names []string
	for _, p := range ProduceProfiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return ProduceProfile{}, fmt.Errorf("%w %q: the known ones are %s", ErrUnknownProduceProfile, name, strings.Join(names, ", "))
}
