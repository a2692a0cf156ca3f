package label

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func profile(t *testing.T) string {
	t.Helper()
	var text bytes.Buffer
	must.OK(t, pprof.Lookup("goroutine").WriteTo(&text, 1))
	return text.String()
}

func TestAGoroutineHasItsLabelInAProfile(t *testing.T) {
	several := New("test of many", "")
	for want, set := range map[string]func(){
		`{"of":"/data", "part":"test scrub"}`: func() { Goroutine("test scrub", "/data") },
		`{"part":"test of many"}`:             several.Set,
	} {
		ready, seen, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() {
			set()
			Label{}.Set() // keeps it
			go func() {   // has the labels of its parent
				close(ready)
				<-seen
				close(ended)
			}()
		}()
		<-ready
		if text := profile(t); !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
		close(seen)
		<-ended
	}
}

func TestALabelCostsNoMemory(t *testing.T) {
	l := New("test", "")
	ended := make(chan float64)
	go func() { ended <- testing.AllocsPerRun(100, l.Set) }()
	if n := <-ended; n != 0 {
		t.Errorf("%v allocations", n)
	}
}
