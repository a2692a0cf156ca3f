package storage

// Bounds is what an Observer implements that knows how far the records of a log
// count in the cluster. Where it doesn't, all that the log acknowledges counts; of a
// log that nobody observes nothing is cleaned.
// Its methods must not block.
type Bounds interface {
	// High is the high watermark: nothing at or above it goes by time or size.
	High() int64
	// Stable is the last stable offset, at most High: nothing at or above it is
	// compacted.
	Stable() int64
}

// high returns the offset at and above which nothing goes by time or size.
func (l *Log) high() int64 {
	switch o := l.observer().(type) {
	case nobody:
		return 0
	case Bounds:
		return min(o.High(), l.AckEnd())
	}
	return l.AckEnd()
}

// stable returns the offset at and above which nothing is compacted.
func (l *Log) stable() int64 {
	high := l.high()
	if b, ok := l.observer().(Bounds); ok {
		return min(b.Stable(), high)
	}
	return high
}
