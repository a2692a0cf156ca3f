package view

import "time"

// Transactions are the transactions that a broker coordinates.
type Transactions struct {
	IDs map[string]int // transactional ids by state
	// Shards counts the partitions of __transaction_state by the state of their coordinator.
	Shards map[string]int
	// Waiting has the markers and flushes that wait for other brokers, by broker id.
	Waiting map[int32]int
	Parked  int // requests that wait for the end of a transaction
	// Undone are those that were decided long ago and have not ended, at most 100 of a shard.
	Undone     []Undone
	Gate       int    // batches that wait for a coordinator
	Raised     uint64 // how often a leader epoch of __transaction_state had to be raised
	MaxTimeout time.Duration
}

// Undone is a transaction that was decided long ago and has not ended: partitions lack its marker,
// or its coordinator cannot write the record of its end.
type Undone struct {
	ID        string // transactional id
	Commit    bool
	Since     time.Time
	Missing   int    // partitions that lack the marker
	Partition string // one of them, or that of the coordinator if there is none
	Error     string // its last error, empty if it has not answered
}

// Held is a partition that this broker leads and whose last stable offset a transaction holds.
type Held struct {
	Topic     string
	Partition int32
	// Open reports that the transaction is open; otherwise its marker is not below the high
	// watermark yet. Count is the number of open transactions.
	Open  bool
	Count int
	Lag   int64         // offsets from the last stable offset up to the high watermark
	Age   time.Duration // since the transaction was first seen to hold it
	Limit time.Duration // the longest timeout that a producer may ask for
	First int64         // first offset of the transaction
	// ProducerID and Epoch are those of the transaction. TransactionalID, Client and Host are empty
	// if this broker was not the leader when it began.
	ProducerID                    int64
	Epoch                         int16
	TransactionalID, Client, Host string
}
