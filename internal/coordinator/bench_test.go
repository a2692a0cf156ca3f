package coordinator

import (
	"sync"
	"testing"
)

// BenchmarkSubmit measures what the runtime adds to an event without records, with clients that
// wait for each response and with clients that do not.
func BenchmarkSubmit(b *testing.B) {
	for _, event := range []string{"cancel x", "wait"} {
		b.Run(event, func(b *testing.B) {
			rt := NewRuntime(Options{New: newTally})
			defer rt.Close()
			rt.Lead(0, 1, &fakeLog{})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var answered sync.WaitGroup
				for pb.Next() {
					answered.Add(1)
					rt.Submit(0, event, func(any, error) { answered.Done() })
					if event != "wait" {
						answered.Wait()
					}
				}
			})
		})
	}
}
