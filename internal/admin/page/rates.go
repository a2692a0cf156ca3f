package page

import (
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// rates measures how fast topics grow, from one request for the list of topics to the next: it does
// nothing without requests. The zero value is ready to use.
type rates struct {
	mu         sync.Mutex
	base, next ends
}

// ends holds the sums of log end offsets at a time.
type ends struct {
	at time.Time
	of map[string]int64
}

const (
	ratesEvery  = 5 * time.Second // between two stored sums
	ratesLeast  = time.Second     // over a shorter time a rate is meaningless
	ratesMost   = 2 * time.Minute // older sums are not used
	ratesTopics = 20_000          // further topics have no rate
)

// measure records the ends of topics and returns a function that reports the records per second of
// a topic since an earlier call; false if there was no recent call or the topic did not exist then.
func (r *rates) measure(now time.Time, topics []view.Topic) func(*view.Topic) (float64, bool) {
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
		return func(*view.Topic) (float64, bool) { return 0, false }
	}
	return func(t *view.Topic) (float64, bool) { // from.of does not change after its creation
		before, ok := from.of[t.Name]
		if !ok || t.Ends < before {
			return 0, false
		}
		return float64(t.Ends-before) / since.Seconds(), true
	}
}
