package group

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Offsets that an operator deletes stay deleted although the topic gets partitions meanwhile.
func TestDeletedShareOffsetsAreNotBegunAgain(t *testing.T) {
	w, store := shareWorld(t)
	a := w.newShareClient("a", "t")
	store.rest()
	a.epoch = -1
	is(t, a.beat(), nil)
	w.topic("t", 4)
	store.collect() // the share coordinator has not answered yet
	ticket := w.send(request(forgetOf("g", "t")))
	store.rest()
	w.advance(time.Minute)
	store.rest()
	is(t, answer[*kmsg.DeleteShareGroupOffsetsResponse](w, ticket).Topics[0].ErrorCode, nil)
	if len(w.positions()) > 0 || len(store.states) > 0 {
		t.Errorf("the group has %v, and there is %v with starts %v", w.positions(), store.states, store.starts)
	}
}

// A new coordinator knows which partitions were added, also if no request for their states has a
// result, or no coordinator was loaded.
func TestAddedPartitionsAfterALoad(t *testing.T) {
	for name, grow := range map[string]func(*world, *shareStore){
		"the request has no result": func(w *world, store *shareStore) {
			w.topic("t", 4)
			store.collect()
			store.answer(func() bool { return true }) // not carried out
			w.start()
		},
		"while no coordinator is loaded": func(w *world, _ *shareStore) {
			w.topics.version++
			w.topics.list["t"] = 4
			w.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, store := shareWorld(t)
			a := w.newShareClient("a", "t")
			store.rest()
			grow(w, store)
			is(t, a.beat(), nil)
			w.advance(10 * time.Second)
			store.rest()
			if at := store.starts[SharePartition{idOf("t"), 3}]; at != -2 {
				t.Errorf("the added partition begins at %d", at)
			}
		})
	}
}
