package controller

import "github.com/chronik-io/chronik/internal/metadata"

// defaultReplicas returns how many replicas a partition gets for which a configuration wants a
// number and no client asks for another one. seeds is how many brokers form the cluster. Brokers
// that are drained, and those that only vote, get no replicas. With some of these others
// registered, it is at most the number of the takers, which are registered, or of those among the
// seeds that may not have registered yet.
func defaultReplicas(wanted, seeds, takers, others int) int {
	if others == 0 {
		return wanted
	}
	return max(1, min(wanted, max(takers, seeds-others)))
}

// DefaultReplicas is how many replicas a new partition gets for which a configuration wants a
// number: fewer if drained brokers, or those that only vote, leave too few.
func DefaultReplicas(img *metadata.Image, wanted, seeds int) int {
	takers, list := 0, img.Brokers()
	for i := range list {
		if TakesReplicas(img, list[i].ID) {
			takers++
		}
	}
	return defaultReplicas(wanted, seeds, takers, len(list)-takers)
}

// TakesReplicas reports whether a broker is registered and may get replicas, be it active or not:
// it is not drained, and does not only vote.
func TakesReplicas(img *metadata.Image, broker int32) bool {
	fit, ok := fitnessIn(img, broker)
	return ok && fit.takes()
}

// TakesPartitions reports whether a broker can take new partitions of clients, as far as the
// metadata shows.
func TakesPartitions(img *metadata.Image, broker int32) bool {
	fit, ok := fitnessIn(img, broker)
	return ok && fit == able
}

func fitnessIn(img *metadata.Image, broker int32) (fit fitness, ok bool) {
	b, ok := img.Broker(broker)
	state, _ := img.State(broker)
	return fitnessOf(&b, &state, img.BrokerConfig(broker)), ok
}
