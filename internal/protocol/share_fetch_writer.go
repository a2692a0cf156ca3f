package protocol

// ShareFetchWriter writes the body of a ShareFetch response, versions 1 and 2, around record bytes
// that it does not copy:
//
//	w.Begin(throttle, code, lock, topics)
//	for each topic: w.Topic(id, partitions), then w.Partition for each of them
//	parts := w.End(endpoints)
//
// The parts, one after the other, are exactly what kmsg writes for the same content.
type ShareFetchWriter struct{ w FetchWriter }

// ShareFetchResult is the answer for one partition.
type ShareFetchResult struct {
	Index int32
	// Code is the error of the fetch, and AckCode that of the acknowledgements; 0 for success.
	Code, AckCode int16
	// Leader is the present leader, for an error that means that this broker is not; nil otherwise.
	Leader *Leader
	// Records are whole batches, in pieces.
	Records [][]byte
	// Acquired are the ranges of records that the member has acquired.
	Acquired []AcquiredRange
}

// AcquiredRange is a range of acquired records with their delivery count.
type AcquiredRange struct {
	First, Last int64
	Count       int16
}

// Begin starts a response. code is the error of the whole response, and lock for how many
// milliseconds records are acquired.
func (w *ShareFetchWriter) Begin(throttleMillis int32, code int16, lockMillis int32, topics int) {
	w.w.Reset()
	w.w.flexible, w.w.version = true, 16 // topics have ids, and the end has addresses
	w.w.int32(throttleMillis)
	w.w.int16(code)
	w.w.nullCount() // no message
	w.w.int32(lockMillis)
	w.w.count(topics)
}

// Topic starts a topic.
func (w *ShareFetchWriter) Topic(id [16]byte, partitions int) {
	beginTopic(&w.w.topicEncoder, "", id, partitions)
}

// Partition writes the answer for the topic's next partition.
func (w *ShareFetchWriter) Partition(p *ShareFetchResult) {
	e := &w.w
	e.int32(p.Index)
	e.int16(p.Code)
	e.nullCount()
	e.int16(p.AckCode)
	e.nullCount()
	leader := Leader{ID: -1, Epoch: -1}
	if p.Leader != nil {
		leader = *p.Leader
	}
	e.int32(leader.ID)
	e.int32(leader.Epoch)
	e.noTags()
	e.batches(p.Records, 0) // none are no bytes: Kafka's clients refuse null
	e.count(len(p.Acquired))
	for i := range p.Acquired {
		e.int64(p.Acquired[i].First)
		e.int64(p.Acquired[i].Last)
		e.int16(p.Acquired[i].Count)
		e.noTags()
	}
	e.noTags()
}

// End ends the response and returns its parts in order. endpoints are the addresses of the Leaders
// that were named.
func (w *ShareFetchWriter) End(endpoints []NodeEndpoint) [][]byte {
	w.w.endTopic()
	w.w.count(len(endpoints))
	for i := range endpoints {
		n := &endpoints[i]
		w.w.int32(n.ID)
		encodeString(&w.w.encoder, n.Host)
		w.w.int32(n.Port)
		w.w.nullable(n.Rack)
		w.w.noTags()
	}
	w.w.noTags()
	return w.w.finish()
}
