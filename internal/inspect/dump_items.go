package inspect

import (
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// Item is one element of a dump. What determines which other fields are set.
type Item struct {
	What string `json:"what"` // checkpoint, log, journal-file, frame, segment, batch, record, aborted, damage
	File string `json:"file,omitempty"`
	// Position is the offset in the file, Bytes the size.
	Position int64 `json:"position"`
	Bytes    int64 `json:"bytes"`

	Topic     string `json:"topic,omitempty"`
	TopicID   string `json:"topicId,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	// Offset is the first offset, Next the one after the last.
	Offset *int64 `json:"offset,omitempty"`
	Next   *int64 `json:"next,omitempty"`

	Checkpoint *ItemCheckpoint `json:"checkpoint,omitempty"`
	Log        *ItemLog        `json:"log,omitempty"`
	Journal    *ItemJournal    `json:"journalFile,omitempty"`
	Frame      *ItemFrame      `json:"frame,omitempty"`
	Batch      *ItemBatch      `json:"batch,omitempty"`
	Record     *ItemRecord     `json:"record,omitempty"`
	Aborted    *ItemAborted    `json:"aborted,omitempty"`
	Damage     string          `json:"damage,omitempty"`
}

// ItemAborted is an entry of a segment's index of aborted transactions: the transaction of a
// producer in [Offset, Next), the last batch of which is its marker.
type ItemAborted struct {
	Producer int64 `json:"producerId"`
	// Stable is the last stable offset after the marker.
	Stable int64 `json:"lastStableOffset"`
}

// ItemCheckpoint describes a checkpoint.
type ItemCheckpoint struct {
	Sequence   uint64 `json:"sequence"`
	RedoFile   uint64 `json:"redoFile"`
	RedoLSN    uint64 `json:"redoLsn"`
	DurableLSN uint64 `json:"durableLsn"`
	Directory  string `json:"directory"`
	Journal    string `json:"journal"`
	Logs       int    `json:"logs"`
	Boot       string `json:"boot"`          // of the operating system; 32 zeros if it is unknown
	Found      uint64 `json:"foundSequence"` // by the first start since the last registration; 0: none
	// Cluster is the one of the last registration, and Generation that of its metadata.
	Cluster    string `json:"cluster,omitempty"`
	Generation string `json:"generation,omitempty"`
	Clean      bool   `json:"clean"`
}

// ItemLog describes a checkpoint's entry of a log.
type ItemLog struct {
	Flags    []string       `json:"flags,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Start    int64          `json:"start"`
	Stored   int64          `json:"stored"`
	LSN      uint64         `json:"lsn"`
	Clean    int64          `json:"compactedTo"`
	High     int64          `json:"highWatermark"`      // a lower bound; -1 if it is unknown
	Epoch    int32          `json:"highWatermarkEpoch"` // in which the broker learned it
	Segments []ItemSegment  `json:"segments"`
	Epochs   []epochs.Entry `json:"epochs,omitempty"`
}

// ItemSegment is a listed segment.
type ItemSegment struct {
	Base  int64 `json:"base"`
	Bytes int64 `json:"bytes"`
}

// ItemJournal describes the header of a journal file.
type ItemJournal struct {
	Sequence uint64 `json:"sequence"`
	Header   string `json:"header"` // ok, one copy, none
	FirstLSN uint64 `json:"firstLsn"`
	ID       string `json:"id"`
	Needed   bool   `json:"needed"` // recovery may read it
}

// ItemFrame describes a frame, or a damaged skip frame.
type ItemFrame struct {
	LSN     uint64 `json:"lsn"`
	Durable uint64 `json:"durableThrough"`
	Type    string `json:"type"`                  // batches, gap, skip
	To      int64  `json:"to,omitempty"`          // of a skip: position of the next frame
	Epoch   *int32 `json:"leaderEpoch,omitempty"` // of a gap
	Carried bool   `json:"carried,omitempty"`
	Counts  bool   `json:"counts"` // it lies beyond the recovery point of its log
	Records int    `json:"records"`
}

// ItemBatch describes a record batch.
type ItemBatch struct {
	Records      int32  `json:"records"`
	Epoch        int32  `json:"leaderEpoch"`
	MaxTimestamp int64  `json:"maxTimestamp"`
	Codec        string `json:"codec"`
	Producer     int64  `json:"producerId"`
	ProducerEp   int16  `json:"producerEpoch"`
	Sequence     int32  `json:"baseSequence"`
	Control      bool   `json:"control,omitempty"`
	Txn          bool   `json:"transactional,omitempty"`
	// With DumpOptions.Batches: the batch itself, and the offset to which its log was compacted, 0
	// if that is unknown.
	Content     []byte `json:"content,omitempty"`
	CompactedTo int64  `json:"compactedTo,omitempty"`
}

// ItemRecord describes a record. Key and value are quoted as in Go if they are not plain text.
type ItemRecord struct {
	Timestamp int64   `json:"timestamp"`
	Key       *string `json:"key"`
	Value     *string `json:"value"`
	Headers   int     `json:"headers,omitempty"`
	// Control: the record marks the end of a transaction.
	Control bool `json:"control,omitempty"`
	// Decoded is what a record of a share group means.
	Decoded *Decoded `json:"decoded,omitempty"`
	// Raw holds the stored bytes. It is valid until the function that got the item returns.
	Raw *record.Record `json:"-"`
}
