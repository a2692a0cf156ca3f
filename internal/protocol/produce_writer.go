package protocol

// ProduceWriter writes the body of a Produce response, version 3 to 13, in the order of the wire:
//
//	w := NewProduceWriter(dst, version, topics)
//	for each topic: w.Topic(name, id, partitions), then w.Partition for each of them
//	dst = w.End(throttle, endpoints)
//
// It writes exactly what kmsg writes for the same content. The caller must write
// as many topics and partitions as it announced.
type ProduceWriter struct {
	topicEncoder
}

// ProducePartitionResult is the answer for one partition.
type ProducePartitionResult struct {
	Index int32
	// Code is Kafka's error code, 0 for success.
	Code int16
	// BaseOffset is -1 with an error. AppendTime is the time in ms under LogAppendTime, otherwise
	// -1; LogStart is -1 if it is not known.
	BaseOffset, AppendTime, LogStart int64
	// ErrorRecords and Message exist from version 8 on; an empty Message is null.
	ErrorRecords []ProduceErrorRecord
	Message      string
	// Leader is the present leader, for NOT_LEADER_OR_FOLLOWER and similar errors; nil and {-1, -1}
	// are left out. From version 10 on.
	Leader *Leader
}

// ProduceErrorRecord names a record that is the reason why a batch was refused.
type ProduceErrorRecord struct {
	Index   int32 // within the batch
	Message string
}

// NewProduceWriter starts a response that is appended to dst.
func NewProduceWriter(dst []byte, version int16, topics int) ProduceWriter {
	w := ProduceWriter{topicEncoder{encoder: encoder{dst: dst, flexible: version >= 9}, version: version}}
	w.count(topics)
	return w
}

// Topic starts a topic. Versions up to 12 use its name, later ones its id.
func (w *ProduceWriter) Topic(name []byte, id [16]byte, partitions int) {
	beginTopic(&w.topicEncoder, name, id, partitions)
}

// Partition writes the answer for the topic's next partition.
func (w *ProduceWriter) Partition(p *ProducePartitionResult) {
	w.int32(p.Index)
	w.int16(p.Code)
	w.int64(p.BaseOffset)
	w.int64(p.AppendTime)
	if w.version >= 5 {
		w.int64(p.LogStart)
	}
	if w.version >= 8 {
		w.count(len(p.ErrorRecords))
		for i := range p.ErrorRecords {
			w.int32(p.ErrorRecords[i].Index)
			w.nullable(p.ErrorRecords[i].Message)
			w.noTags()
		}
		w.nullable(p.Message)
	}
	if !w.flexible {
		return
	}
	if w.version >= 10 && p.Leader != nil && *p.Leader != (Leader{-1, -1}) {
		w.uvarint(1)
		w.leaderTag(0, p.Leader)
		return
	}
	w.noTags()
}

// End ends the response and returns it. endpoints are the addresses of the Leaders that were named;
// they exist from version 10 on.
func (w *ProduceWriter) End(throttleMillis int32, endpoints []NodeEndpoint) []byte {
	w.endTopic()
	w.int32(throttleMillis)
	if w.version < 10 {
		endpoints = nil
	}
	w.endpoints(endpoints)
	return w.dst
}
