package acl

import (
	"fmt"
	"runtime"
	"testing"
)

// Bindings for many addresses are not repeated with each of the names that they apply to: the
// number of bindings bounds what compiling them takes. For 10,000 it was more than ten minutes.
func TestAddressesAreNotRepeatedWithNames(t *testing.T) {
	const n = 1000
	var list []Binding
	add := func(name, host string) {
		list = append(list, Binding{Type: Topic, Name: name, Pattern: Literal, Principal: "User:a", Host: host, Operation: Read,
			Permission: Allow})
	}
	for i := range n {
		add(Wildcard, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
		add(fmt.Sprint("name", i), Wildcard)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := Compile(list, Options{})
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 4000*2*n {
		t.Errorf("%d bindings take %d bytes", r.Len(), bytes)
	}
	for host, want := range map[string]bool{"10.0.3.249": true, "10.0.4.0": false} {
		if r.Subject("User:a", host).Allowed(Read, Topic, "other") != want {
			t.Error(host)
		}
	}
}
