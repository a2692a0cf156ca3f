package replica

import "testing"

// BenchmarkFreeze freezes and thaws 10,000 partitions that this broker leads.
func BenchmarkFreeze(b *testing.B) {
	m, list := freezable(b, 10_000)
	for _, p := range list {
		lead(p, 0, []int32{self}, []int32{self})
	}
	attempt := int64(0)
	for b.Loop() {
		attempt++
		if n := len(freeze(b, m, attempt)); n != len(list) {
			b.Fatal(n)
		}
		m.Thaw(FreezeID{1, attempt})
	}
}
