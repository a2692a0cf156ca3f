package durability

import (
	"errors"
	"fmt"
	"strings"
)

// DefaultPreset is the name of the produce preset of a broker that was told
// nothing.
const DefaultPreset = "balanced"

// ErrUnknownPreset is matched by the error of LookupPreset.
var ErrUnknownPreset = errors.New("unknown produce profile")

// ProducePreset bounds the memory of the layer before the log: what clients have
// sent and no acknowledgement has left for. At a bound a broker stops reading
// the connection, so the client feels back-pressure; nothing waits for batches
// here.
type ProducePreset struct {
	// Name is what CHRONIK_PRODUCE_PROFILE says.
	Name string
	// Doc is one sentence for people: what the preset is for.
	Doc string
	// ProduceBytes bounds the client produce requests in the broker, in bytes of
	// their frames. One larger frame is admitted alone.
	ProduceBytes int64
	// ConnectionBytes bounds those of one connection. It is a quarter of
	// ProduceBytes, so that it takes four greedy connections to fill the broker.
	ConnectionBytes int64
	// DeferredBytes bounds the bytes of one log directory that are durable in its
	// journal and not yet in their segments; they are the cache that consumers of
	// the tail read. It is four times ProduceBytes, so that segments are written
	// in pieces worth a seek, but at most 1 GiB: the journal holds no more.
	DeferredBytes int64
	// ConnectionRequests bounds the unanswered produce requests of one
	// connection, which bounds what costs memory per request and not per byte.
	// Kafka's clients have 5 in flight.
	ConnectionRequests int
}

const mib = 1 << 20

// Presets returns the produce presets, smallest first. The slice is the
// caller's.
func Presets() []ProducePreset {
	return []ProducePreset{
		preset("low-latency", "Little memory and short queues: clients wait in their own buffers.", 16*mib, 32),
		preset("balanced", "The default.", 32*mib, 64),
		preset("high-throughput", "Many producers with large batches.", 128*mib, 128),
		preset("extreme", "Bulk load on a machine with memory to spare.", 512*mib, 256),
	}
}

func preset(name, doc string, produce int64, requests int) ProducePreset {
	return ProducePreset{
		Name: name, Doc: doc, ProduceBytes: produce, ConnectionBytes: produce / 4,
		DeferredBytes: min(4*produce, 1024*mib), ConnectionRequests: requests,
	}
}

// LookupPreset returns the preset of that name. The error lists the known names.
func LookupPreset(name string) (ProducePreset, error) {
	var names []string
	for _, p := range Presets() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return ProducePreset{}, fmt.Errorf("%w %q: the known ones are %s", ErrUnknownPreset, name, strings.Join(names, ", "))
}
