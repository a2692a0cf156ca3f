package metadata

// ISRChange is a change of a partition's ISR and ELR that its leader requests (KIP-497, KIP-966).
// It is refused unless everything that the leader's decision depends on is as the leader saw it.
type ISRChange struct {
	TopicPartition
	// Revision is that of the partition's record.
	Revision int64
	ISR, ELR []int32
	// Members are the leader and the brokers that join the ISR.
	Members []BrokerRevision
}

// BrokerRevision is the state of a broker that a change depends on.
type BrokerRevision struct {
	Broker int32
	// Epoch is the revision of the broker's registration, and Liveness that of its BrokerState.
	Epoch, Liveness int64
}
