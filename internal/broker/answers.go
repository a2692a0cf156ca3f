package broker

import (
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
)

// A request of a hundred bytes may list or describe all that a broker knows. So the answer of an
// API that does not say inProportion is given its memory before it is built: as much as the largest
// answer there can be. It follows from what the broker has, and is about the same for all of these
// APIs. Only those compute their own that clients begin with, and others of which the table knows
// the number of entries.

// smallAnswer is the largest answer that needs no memory of its own.
const smallAnswer = 64 << 10

// What an answer has for a topic, a partition, and a log, rule, quota or user, in bytes. A topic
// counts for its name, and a partition for its replicas.
const (
	topicAnswer     = 300
	partitionAnswer = 64
	entryAnswer     = 256
)

// imageSize is the size of an answer with all that is in an image.
type imageSize struct {
	img *metadata.Image
	n   int64
}

// largestAnswer returns about how many bytes the largest answer has that is not in proportion to
// its request: the metadata, or the groups and transactions that this broker coordinates.
func (b *Handler) largestAnswer() int64 {
	img := b.image()
	s := b.imageSize.Load()
	if s == nil || s.img != img {
		s = &imageSize{img: img, n: int64(img.NumACLs()+img.NumQuotas()+img.NumUsers()) * entryAnswer}
		for t := range img.Topics() {
			s.n += topicAnswer + partitionAnswer*int64(t.Partitions.Len())
		}
		b.imageSize.Store(s)
	}
	n := s.n
	if b.opt.Groups != nil { // and transactional ids, which count against the same budget
		n = max(n, b.opt.Groups.MemberMemory().Used())
	}
	return n
}

// reserveAnswer waits for the memory of the request's answer, which has so many entries at most, on
// its connection's reader. Those with small answers do not wait behind clients that read none:
// without its metadata no client begins. waits: the request may wait for a disk or a shard, and
// delays only others of its kind meanwhile.
func (b *Handler) reserveAnswer(r *network.Request, entries int, waits bool) {
	if entries <= smallAnswer/entryAnswer {
		return
	}
	n := b.largestAnswer()
	if entries < int(n/entryAnswer) {
		n = int64(entries) * entryAnswer
	}
	if n <= smallAnswer || !r.MayBlock() {
		return
	}
	r.WaitsAt(b.at.place, "")
	r.ReserveAnswer(n, waits)
	r.WaitsAt(nil, "")
}
