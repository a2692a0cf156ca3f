package view

// ClientMetrics are the metrics that clients pushed to this broker (KIP-714).
type ClientMetrics struct {
	Clients int            // that a subscription selects and that were heard of lately
	Series  []ClientSeries // sorted
	// Omitted counts the values that found no room, made room for others, or were no numbers, since
	// the start.
	Omitted int64
}

// ClientSeries is one series that a client pushes, with its last value or, for a sum, the sum since
// the client's first push to this broker. Its texts are valid UTF-8.
type ClientSeries struct {
	Metric             string // "org.apache.kafka.producer.connection.count"
	ClientID, Instance string // client.id, and the id of this instance of it
	// Topic, Partition and Node are the attributes of these names, Attributes all others:
	// "a=1,b=2".
	Topic, Partition, Node, Attributes string
	Total                              bool // it only grows
	Value                              float64
}

// Bytes returns the size of the texts, without those of the client.
func (s *ClientSeries) Bytes() int {
	return len(s.Metric) + len(s.Topic) + len(s.Partition) + len(s.Node) + len(s.Attributes)
}
