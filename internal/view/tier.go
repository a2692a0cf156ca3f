package view

// Tier is what the object store has of a partition whose topic has remote.storage.enable.
type Tier struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`   // the offset after its last record
	Bytes int64 `json:"bytes"` // of its batches
	Copying
}

// Copying is how far the leader of a partition is with copies to the object store. Other replicas
// do not know it.
type Copying struct {
	// Pending are the records that could be copied and are not, and PendingBytes about their size.
	// The active segment is not among them until it has 64 MiB.
	Pending      int64 `json:"pending"`
	PendingBytes int64 `json:"pendingBytes"`
	// Error is why copies fail, in ms since 1970 since FailingMs; empty and 0 if they do not.
	Error     string `json:"error"`
	FailingMs int64  `json:"failingMs"`
}

// Tiering is what a broker does about copies to the object store and reads from there.
type Tiering struct {
	Partitions int   // that the broker leads, with copies or to be copied
	Failing    int   // of these: those whose copies fail
	Bytes      int64 // that the store has of them
	Pending    int64 // records that could be copied and are not
	// PendingBytes is about the size of Pending.
	PendingBytes int64
	// The following grow. Objects and Copied are those that were put, with records, and the bytes
	// of these records.
	Objects, Copied, Failures int64
	Reads                     TierReads
}

// TierReads are the reads from the object store. All but the last three grow.
type TierReads struct {
	Bytes, Failures  int64
	Hits, Misses     int64 // pieces of objects that the cache had, or had not
	Running, Waiting int   // transfers
	Cached           int64 // bytes of the cache
}
