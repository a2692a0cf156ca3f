package group

import (
	"fmt"
	"testing"
	"time"
)

func TestAThousandMembers(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.InitialDelay = 3 * time.Second })
	w.topic("t", 1000)
	olds := make([]*oldClient, 1000)
	for i := range olds {
		olds[i] = &oldClient{w: w, topics: []string{"t"}, generation: -1}
	}
	for range 20 {
		done := true
		for _, o := range olds {
			o.step()
			done = done && o.has.Count() == 1
		}
		if done {
			if w.replays(); w.shard.groups["g"].classic().generation != 1 {
				t.Errorf("it took %d generations", w.shard.groups["g"].classic().generation)
			}
			return
		}
		w.advance(time.Second)
	}
	t.Error("they don't get to work")
}

func TestHundredsOfConsumers(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 200)
	all := make([]*client, 200)
	for i := range all {
		all[i] = w.newClient(fmt.Sprint("m", i), "t")
	}
	for rounds := 1; ; rounds++ {
		done := true
		for _, c := range all {
			is(t, c.beat(), nil)
			done = done && c.has.Count() == 1
		}
		if done {
			break
		}
		if rounds == 5 { // of heartbeats, whatever the size
			t.Fatal("they don't get to work")
		}
	}
	w.replays()
}
