package logtail

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// The tail holds the last lines that fit, complete and in order, and counts the others.
func TestTheLastLinesAreKept(t *testing.T) {
	tail := New(100)
	for i := range 50 {
		fmt.Fprintf(tail, "line %02d\n", i)
	}
	text, dropped := tail.Lines()
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 12 || !strings.HasPrefix(lines[0], "line 38") || !strings.HasPrefix(lines[11], "line 49") || dropped != 38 {
		t.Errorf("%d lines, %d dropped:\n%s", len(lines), dropped, text)
	}
	fmt.Fprintf(tail, "%s\n", strings.Repeat("x", 1000))
	if text, _ = tail.Lines(); len(text) > 100 || !strings.HasSuffix(string(text), "\n"+strings.Repeat("x", 25)+"\n") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if cap(tail.lines) > 60 {
		t.Errorf("the ring has a capacity of %d lines", cap(tail.lines))
	}
}

func TestTheZeroTailHoldsNothing(t *testing.T) {
	var tail Tail
	fmt.Fprintln(&tail, "a")
	if text, dropped := tail.Lines(); len(text) != 0 || dropped != 1 {
		t.Errorf("%q, %d", text, dropped)
	}
}

// Lines are in the log and in the tail, each at its own level.
func TestFollow(t *testing.T) {
	core, seen := observer.New(zap.WarnLevel)
	tail := New(1 << 20)
	log := tail.Follow(zap.New(core), zap.InfoLevel).Named("disk").With(zap.String("dir", "/d"))
	log.Debug("silent")
	log.Info("quiet")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { log.Warn("loud", zap.Int("n", 3)) })
	}
	all.Wait()
	text, _ := tail.Lines()
	if seen.Len() != 10 || strings.Count(string(text), "\n") != 11 || strings.Contains(string(text), "silent") ||
		!strings.Contains(string(text), `"logger":"disk","msg":"loud","dir":"/d","n":3}`) {
		t.Errorf("%d lines in the log; in the tail:\n%s", seen.Len(), text)
	}
}
