package pause

import (
	"runtime"
	"time"
)

const (
	// dutyPart is what part of the processors a Duty has: one of so many.
	dutyPart = 3
	// perByte is the longest time that counts for a byte: what a read needs, and the checksums of
	// an upload with instructions for SHA-256. Beyond that, a disk, a network, or other work that
	// has the processors are waited for. If that counted, background work would become slower and
	// slower next to requests.
	perByte = 3 * time.Nanosecond
	// mostBytes bounds the bytes that count at a time, and so how long others rest for them.
	mostBytes = 4 << 20
	// dutyIdle bounds the time without work that is made up for, and so how long work is done
	// without a rest.
	dutyIdle = 5 * time.Millisecond
)

// Duty is the duty cycle of background work, such as uploads: all goroutines that share one have a
// third of the processors. Without rests, each of them runs for up to 10 ms at a time (Go's time
// slice) while requests wait, and nothing polls the network. Background work takes none of the
// places of package share, since a read of a disk that hangs would hold one. A nil Duty has no
// rests. Its methods may be called concurrently.
type Duty struct{ pace Pace }

// NewDuty returns a duty cycle.
func NewDuty() *Duty { return &Duty{Pace{Idle: dutyIdle}} }

// Begin begins work of one goroutine.
func (d *Duty) Begin() Work { return Work{duty: d, since: time.Now()} }

// Work is a stopwatch for what one goroutine does. It must not be used concurrently.
type Work struct {
	duty  *Duty
	since time.Time
}

// Rest counts the time since Begin, Restart or the last Rest, in which n bytes were worked on. Then
// it sleeps until all work is within the third: with one processor, for at most 9 ms per MiB of
// all that is worked on at the time.
func (w *Work) Rest(n int) {
	if w.duty == nil {
		return
	}
	worked := min(time.Since(w.since), time.Duration(min(n, mostBytes))*perByte)
	third := float64(runtime.GOMAXPROCS(0)) / dutyPart * float64(time.Second) // the limit of a container may change
	if d := w.duty.pace.Count(int(worked), third); d > 0 {
		time.Sleep(d)
	}
	w.Restart()
}

// Restart leaves out the time until now.
func (w *Work) Restart() { w.since = time.Now() }
