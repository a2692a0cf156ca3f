package configdef

import (
	"errors"
	"fmt"
	"strings"
)

// DefaultPreset is the name of the default produce preset.
const DefaultPreset = "balanced"

// ErrUnknownPreset is matched by the error of LookupPreset.
var ErrUnknownPreset = errors.New("unknown produce profile")

// ProducePreset bounds the memory of the layer before the log: requests that clients have sent and
// that are not acknowledged yet. At a bound a broker stops reading the connection, so the client
// feels back-pressure; nothing waits here for batches to form.
type ProducePreset struct {
	// Name is the value of CHRONIK_PRODUCE_PROFILE.
	Name string
	// Doc is one sentence about the purpose of the preset.
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

// Presets returns the produce presets, smallest first. The caller owns the slice.
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
