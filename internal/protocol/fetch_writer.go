package protocol

// FetchWriter writes the body of a Fetch response, version 4 to 18, around record bytes that it
// does not copy:
//
//	w.Begin(version, throttle, code, session, topics)
//	for each topic: w.Topic(name, id, partitions), then w.Partition for each of them
//	parts := w.End(endpoints)
//
// The parts, one after the other, are exactly what kmsg writes for the same content. They are
// valid, like the record bytes among them, until the next Begin. The caller must write as many
// topics and partitions as it announced. A FetchWriter is reused. It keeps at most maxKeptAnswer
// and maxKeptPieces of its memory, since the fetch that uses it next may wait for minutes.
type FetchWriter struct {
	topicEncoder
	records []recordsAt
	parts   [][]byte
	lent    []int
	size    int
}

// recordsAt is the position in the encoding where record bytes are inserted; nil for those that the
// caller sends itself.
type recordsAt struct {
	at    int
	bytes []byte
}

// FetchPartitionResult is the answer for one partition.
type FetchPartitionResult struct {
	Index int32
	// Code is Kafka's error code, 0 for success.
	Code int16
	// HighWatermark, LastStable and LogStart are -1 if they are not known.
	HighWatermark, LastStable, LogStart int64
	// Aborted lists the aborted transactions in the returned range. It is nil for read_uncommitted,
	// and not nil, even if empty, for read_committed.
	Aborted []AbortedTransaction
	// PreferredReplica is -1 if the client should stay. From version 11 on.
	PreferredReplica int32
	// Records are whole batches, in pieces; without any the field is empty, not null. They follow
	// Lent bytes that the caller sends itself; see Lent of the writer.
	Records [][]byte
	Lent    int
	// Diverging is where the fetcher's log diverges from this one; nil if it does not. Leader is
	// the present leader, for an error that means that this broker is not; otherwise nil. Both from
	// version 12 on.
	Diverging *Diverging
	Leader    *Leader
}

// AbortedTransaction is an aborted transaction of a fetched range.
type AbortedTransaction struct{ ProducerID, FirstOffset int64 }

// Diverging is the largest epoch, and its end offset, after which a fetcher's log is known to
// differ (KIP-595).
type Diverging struct {
	Epoch     int32
	EndOffset int64
}

// Begin starts a response and drops the previous one. code is the error of the whole response,
// session the fetch session's id or 0; both are written from version 7 on.
func (w *FetchWriter) Begin(version int16, throttleMillis int32, code int16, session int32, topics int) {
	w.Reset()
	w.version, w.flexible = version, version >= 12
	w.int32(throttleMillis)
	if version >= 7 {
		w.int16(code)
		w.int32(session)
	}
	w.count(topics)
}

const (
	maxKeptAnswer = 8 << 10 // bytes
	maxKeptPieces = 256
)

// Reset empties the writer, so that it retains no record bytes.
func (w *FetchWriter) Reset() {
	clear(w.records)
	clear(w.parts[:cap(w.parts)])
	if cap(w.dst) > maxKeptAnswer {
		w.dst = nil
	}
	if cap(w.records) > maxKeptPieces {
		w.records = nil
	}
	if cap(w.parts) > maxKeptPieces {
		w.parts = nil
	}
	if cap(w.lent) > maxKeptPieces {
		w.lent = nil
	}
	*w = FetchWriter{topicEncoder: topicEncoder{encoder: encoder{dst: w.dst[:0]}}, records: w.records[:0], parts: w.parts[:0],
		lent: w.lent[:0]}
}

// Topic starts a topic. Versions up to 12 use its name, later ones its id.
func (w *FetchWriter) Topic(name string, id [16]byte, partitions int) {
	beginTopic(&w.topicEncoder, name, id, partitions)
}

// Partition writes the answer for the topic's next partition.
func (w *FetchWriter) Partition(p *FetchPartitionResult) {
	w.int32(p.Index)
	w.int16(p.Code)
	w.int64(p.HighWatermark)
	w.int64(p.LastStable)
	if w.version >= 5 {
		w.int64(p.LogStart)
	}
	w.aborted(p.Aborted)
	if w.version >= 11 {
		w.int32(p.PreferredReplica)
	}
	w.batches(p.Records, p.Lent)
	if w.flexible {
		w.tags(p)
	}
}

// End ends the response and returns its parts in order. endpoints are the addresses of the Leaders
// that were named; they exist from version 16 on.
func (w *FetchWriter) End(endpoints []NodeEndpoint) [][]byte {
	w.endTopic()
	if w.version < 16 {
		endpoints = nil
	}
	w.endpoints(endpoints)
	return w.finish()
}

// finish returns the parts of a body that is complete.
func (w *FetchWriter) finish() [][]byte {
	w.size += len(w.dst)
	at := 0
	for _, r := range w.records {
		if r.at > at {
			w.parts = append(w.parts, w.dst[at:r.at])
			at = r.at
		}
		if r.bytes == nil {
			w.lent = append(w.lent, len(w.parts))
			continue
		}
		w.parts = append(w.parts, r.bytes)
	}
	if at < len(w.dst) {
		w.parts = append(w.parts, w.dst[at:])
	}
	return w.parts
}

// Lent returns, for each partition with Lent bytes in order, how many of the parts come before
// those bytes. It is valid as long as the parts are.
func (w *FetchWriter) Lent() []int { return w.lent }

// Size returns the number of bytes written so far, including record bytes once End has been called.
func (w *FetchWriter) Size() int { return w.size }

func (w *FetchWriter) aborted(txns []AbortedTransaction) {
	if txns == nil {
		w.nullCount()
		return
	}
	w.count(len(txns))
	for i := range txns {
		w.int64(txns[i].ProducerID)
		w.int64(txns[i].FirstOffset)
		w.noTags()
	}
}

func (w *FetchWriter) batches(pieces [][]byte, lent int) {
	n := lent
	for _, p := range pieces {
		n += len(p)
	}
	w.size += n
	if w.flexible {
		w.uvarint(uint32(n) + 1)
	} else {
		w.int32(int32(n))
	}
	if lent > 0 {
		w.records = append(w.records, recordsAt{at: len(w.dst)})
	}
	for _, p := range pieces {
		if len(p) > 0 {
			w.records = append(w.records, recordsAt{at: len(w.dst), bytes: p})
		}
	}
}

func (w *FetchWriter) tags(p *FetchPartitionResult) {
	diverging := p.Diverging != nil && *p.Diverging != (Diverging{-1, -1})
	leader := p.Leader != nil && *p.Leader != (Leader{-1, -1})
	n := uint32(0)
	if diverging {
		n++
	}
	if leader {
		n++
	}
	w.uvarint(n)
	if diverging {
		w.uvarint(0)
		w.uvarint(13)
		w.int32(p.Diverging.Epoch)
		w.int64(p.Diverging.EndOffset)
		w.noTags()
	}
	if leader {
		w.leaderTag(1, p.Leader)
	}
}
