package host

import "golang.org/x/sys/unix"

// clockState returns from the kernel whether its clock is synchronized. A sandbox may forbid the
// call.
func clockState() (synchronized, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, false
	}
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, true
}
