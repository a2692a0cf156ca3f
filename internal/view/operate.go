package view

// ConfirmLoss is the election type of an ElectLeaders with which an operator confirms that he knows
// of records that earlier elections may have lost: chronik's own. It elects nothing. Other brokers
// refuse it with INVALID_REQUEST.
const ConfirmLoss int8 = 64

// ShareTag is the number of the tagged field (KIP-482) with which an operator's request about
// single records of a share group is in a ShareFetch, which shows them, or in a ShareAcknowledge,
// which changes them: chronik's own, ignored by other clients and brokers. The request names no
// member and no partition. The field has a ShareAsk, and in the answer ShareRecords or ShareChange,
// all as JSON.
const ShareTag uint32 = 20480

// Bounds of ShareAsk and of its answers.
const (
	MaxShareAsk     = 4 << 10  // bytes of a ShareAsk
	MaxShareAnswer  = 60 << 10 // bytes of ShareRecords
	MaxShareRecords = 500      // that one answer has
	MaxSharePreview = 256      // bytes of a key, and of a value
)

// The actions of ShareAsk.
const (
	ReleaseRecords = "release"
	RejectRecords  = "reject"
)

// ShareAsk is what an operator asks for a share partition.
type ShareAsk struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// First is the first offset, and Last the last one of a change.
	First int64 `json:"first"`
	Last  int64 `json:"last,omitempty"`
	// Action is the change.
	Action string `json:"action,omitempty"`
	// Limit is how many records to show, and States which ones; none: all that are not finished.
	Limit  int      `json:"limit,omitempty"`
	States []string `json:"states,omitempty"`
}

// ShareRecords are records of a share partition that are not finished.
type ShareRecords struct {
	// Start and End are the share-partition start and end offset, and HighWatermark is that of the
	// data partition.
	Start         int64         `json:"start"`
	End           int64         `json:"end"`
	HighWatermark int64         `json:"highWatermark"`
	Records       []ShareRecord `json:"records"`
	// Next is the offset with which another request continues, -1: there is nothing more.
	Next int64 `json:"next"`
	// Note is why some records have no key and value.
	Note string `json:"note,omitempty"`
}

// ShareRecord is an offset of a share partition.
type ShareRecord struct {
	Offset int64  `json:"offset"`
	State  string `json:"state"`
	// Deliveries is how often the record was delivered, the present delivery included.
	Deliveries int `json:"deliveries"`
	// Member holds the record, and its lock ends in LeftMs; that of a delayed record is when it
	// becomes available.
	Member string `json:"member,omitempty"`
	LeftMs int64  `json:"leftMs,omitempty"`
	// Key and Value are at most MaxSharePreview bytes of a record, null for none, KeyBytes and
	// ValueBytes the whole sizes, and Timestamp is in milliseconds since 1970.
	Key        []byte `json:"key"`
	KeyBytes   int    `json:"keyBytes"`
	Value      []byte `json:"value"`
	ValueBytes int    `json:"valueBytes"`
	Timestamp  int64  `json:"timestamp"`
	// Missing: the log has no record with the offset.
	Missing bool `json:"missing,omitempty"`
}

// ShareChange says what became of the offsets of a change.
type ShareChange struct {
	Changed int64 `json:"changed"`
	// The others are as they were: no member holds them, they are finished, they are below the
	// share-partition start offset, or at or above the end offset.
	Available int64 `json:"available"`
	Finished  int64 `json:"finished"`
	Below     int64 `json:"below"`
	Beyond    int64 `json:"beyond"`
}
