package broker

import (
	"errors"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
)

// A request of a hundred bytes may list or describe all that a broker knows. So the answer of an
// API that does not say inProportion is given its memory before it is built: as much as the largest
// answer there can be, or what the API computes for the request. All of these APIs answer once for
// what a request names repeatedly.

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

// mostAnswer bounds answers about what a request names: they may have more than the broker does,
// such as the configs of groups that do not exist.
func (b *Handler) mostAnswer() int64 { return max(b.largestAnswer(), b.opt.ParkedBytes) }

// errEnded ends a request whose answer has no reader any more.
var errEnded = errors.New("the client is gone; its request waited for a place, or for the memory of its answer")

// reserveAnswer waits for the memory of the request's answer, of about n bytes, on its connection's
// reader. It returns false if the connection has ended: then the request must be aborted. Those
// with small answers do not wait behind clients that read none: without its metadata no client
// begins. The request delays only others that wait for the same.
func (b *Handler) reserveAnswer(r *network.Request, n int64, how network.Building) bool {
	if n = min(n, b.mostAnswer()); n <= smallAnswer || !r.MayBlock() {
		return true
	}
	r.WaitsAt(b.at.place, "")
	there := r.ReserveAnswer(2*n, how) // it is built, and then encoded
	r.WaitsAt(nil, "")
	return there
}
