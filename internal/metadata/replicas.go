package metadata

// DefaultReplicas returns how many replicas a partition gets for which a configuration wants a
// number and no client asks for another one. seeds is how many brokers form the cluster. Brokers
// that only vote get no replicas, so with voters among those that are registered, it is at most the
// number of the others: of the holders that are registered, or of those among the seeds that may
// not have registered yet.
func DefaultReplicas(wanted, seeds, holders, voters int) int {
	if voters == 0 {
		return wanted
	}
	return max(1, min(wanted, max(holders, seeds-voters)))
}

// DefaultReplicas is the function of that name for the registered brokers.
func (m *Image) DefaultReplicas(wanted, seeds int) int {
	voters := 0
	for i := range m.brokers {
		if m.brokers[i].Votes() {
			voters++
		}
	}
	return DefaultReplicas(wanted, seeds, len(m.brokers)-voters, voters)
}
