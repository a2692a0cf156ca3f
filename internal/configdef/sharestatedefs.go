package configdef

import "time"

// Shares has the settings of the share coordinator and of its topic; Kafka's names are
// share.coordinator.*.
type Shares struct {
	Partitions        int32
	ReplicationFactor int16 // fewer if there are fewer brokers
	MinISR            int32
	SegmentBytes      int32
	SnapshotUpdates   int // updates of a share partition after its snapshot
	WriteTimeout      time.Duration
}

// shareDefs are the broker configs of the share coordinator.
func shareDefs() []*Def {
	return []*Def{
		brokerDef("share.coordinator.state.topic.num.partitions", Int, "50",
			"The number of partitions with which __share_group_state is created. It must not change, because it determines the partition of each state of a share group.",
			importance(High), between(1, 10_000)),
		brokerDef("share.coordinator.state.topic.replication.factor", Short, "3",
			"The number of replicas with which __share_group_state is created, or fewer if there are fewer brokers.", importance(High),
			atLeast(1)),
		brokerDef("share.coordinator.state.topic.min.isr", Short, "2",
			"The min.insync.replicas with which __share_group_state is created. With fewer replicas, their number counts.",
			importance(High), atLeast(1)),
		brokerDef("share.coordinator.state.topic.segment.bytes", Int, "104857600",
			"The segment.bytes with which __share_group_state is created; small segments are deleted sooner.", importance(High),
			atLeast(1<<20)),
		brokerDef("share.coordinator.snapshot.update.records.per.snapshot", Int, "500",
			"How many changes of a share partition are stored before its whole state is stored again. Fewer make loads shorter and writes larger.",
			importance(Medium), between(0, 500)),
		brokerDef("share.coordinator.write.timeout.ms", Int, "5000",
			"How long, in milliseconds, a request of a tool to the share coordinator waits until its records are on the in-sync replicas.",
			importance(Medium), atLeast(1)),
	}
}

func (f *reader) shares() Shares {
	return Shares{
		Partitions:        int32(f.value("share.coordinator.state.topic.num.partitions").n),
		ReplicationFactor: int16(f.value("share.coordinator.state.topic.replication.factor").n),
		MinISR:            int32(f.value("share.coordinator.state.topic.min.isr").n),
		SegmentBytes:      int32(f.value("share.coordinator.state.topic.segment.bytes").n),
		SnapshotUpdates:   int(f.value("share.coordinator.snapshot.update.records.per.snapshot").n),
		WriteTimeout:      milliseconds(f.value("share.coordinator.write.timeout.ms").n),
	}
}
