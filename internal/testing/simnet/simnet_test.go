package simnet

import (
	"fmt"
	"testing"
)

func run(n *Net, packets int) string {
	out := ""
	for i := range packets {
		n.Send(1, 2, []byte{byte(i)})
	}
	for range 20 {
		for _, p := range n.Step() {
			out += fmt.Sprint(p.Payload[0], " ")
		}
	}
	return out
}

func TestPerfectNetworkDeliversInOrder(t *testing.T) {
	if got := run(New(1, Faults{}), 4); got != "0 1 2 3 " {
		t.Errorf("delivered %s", got)
	}
}

func TestSeedDeterminesTheRun(t *testing.T) {
	f := Faults{Loss: 0.2, Duplicate: 0.2, MaxDelay: 5, Reorder: true}
	if a, b := run(New(7, f), 40), run(New(7, f), 40); a != b {
		t.Errorf("one seed, two runs:\n%s\n%s", a, b)
	}
	if a, b := run(New(7, f), 40), run(New(8, f), 40); a == b {
		t.Error("two seeds, one run")
	}
}

func TestPacketsOvertakeOnlyIfAllowed(t *testing.T) {
	ordered, n := true, New(3, Faults{MaxDelay: 5})
	for i := range 100 {
		n.Send(1, 2, []byte{byte(i)})
	}
	last := -1
	for range 10 {
		for _, p := range n.Step() {
			ordered = ordered && int(p.Payload[0]) > last
			last = int(p.Payload[0])
		}
	}
	if !ordered || last != 99 {
		t.Errorf("packets overtook each other, last %d", last)
	}
}

func TestCutIsOneWay(t *testing.T) {
	n := New(1, Faults{MaxDelay: 1})
	n.Send(1, 2, []byte("on its way"))
	n.Cut(1, 2)
	n.Send(1, 2, []byte("after"))
	n.Send(2, 1, []byte("back"))
	got := ""
	for range 3 {
		for _, p := range n.Step() {
			got += string(p.Payload)
		}
	}
	if got != "back" || n.Losses != 2 {
		t.Errorf("delivered %q, %d lost", got, n.Losses)
	}
	n.Heal()
	n.Send(1, 2, []byte("healed"))
	n.Send(2, 3, []byte("x"))
	n.Forget(3)
	if p := append(n.Step(), n.Step()...); len(p) != 1 || string(p[0].Payload) != "healed" {
		t.Errorf("after Heal and Forget: %v", p)
	}
}
