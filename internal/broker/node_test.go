package broker

import "testing"

func TestANodeStartsAndStops(t *testing.T) {
	n := newNode(t)
	n.topic(t, "a", 3)
	if got := n.image().Topic("a").Partitions.Len(); got != 3 {
		t.Fatalf("%d partitions, want 3", got)
	}
}
