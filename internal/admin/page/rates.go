package page

import (
	"sync"
	"time"
)

// rates measures how fast topics grow, from one look at the list of topics to the next:
// nothing is kept up to date while no browser asks. The zero value is ready.
type rates struct {
	mu         sync.Mutex
	base, next ends
}

// ends are the sums of log end offsets at a time.
type ends struct {
	at time.Time
	of map[string]int64
}

const (
	ratesEvery  = 5 * time.Second // between two sums that are kept
	ratesLeast  = time.Second     // over less than this a rate means nothing
	ratesMost   = 2 * time.Minute // older sums are not used
	ratesTopics = 20_000          // of more, the others have no rate
)

// measure notes the ends of topics and returns the records per second of a topic since an
// earlier call; false if there was none that is recent, or the topic is not of then.
func (r *rates) measure(now time.Time, topics []Topic) func(*Topic) (float64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.next.at) >= ratesEvery {
		r.base, r.next = r.next, ends{at: now, of: make(map[string]int64, min(len(topics), ratesTopics))}
		for i := range topics[:min(len(topics), ratesTopics)] {
			r.next.of[topics[i].Name] = topics[i].Ends
		}
	}
	from := r.base
	if since := now.Sub(from.at); since > ratesMost {
		from = r.next
	}
	since := now.Sub(from.at)
	if since < ratesLeast || since > ratesMost {
		return func(*Topic) (float64, bool) { return 0, false }
	}
	return func(t *Topic) (float64, bool) { // from.of is not changed once it was made
		before, ok := from.of[t.Name]
		if !ok || t.Ends < before {
			return 0, false
		}
		return float64(t.Ends-before) / since.Seconds(), true
	}
}
