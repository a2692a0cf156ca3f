package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"time"
)

// profilesPath is the path of Go's profiles, as net/http/pprof has them, without symbol and without
// deltas. That package adds its paths to http.DefaultServeMux when it is imported: a program that
// embeds a broker would serve the profiles of the process to everyone who reaches a port of its
// own.
const profilesPath = "/debug/pprof/"

// profileTime is how long a profile of the processor time lasts without seconds=, traceTime a
// trace, and mostTime either at most.
const (
	profileTime = 30 * time.Second
	traceTime   = time.Second
	mostTime    = time.Hour
)

// goProfiles serves the profile that the path names, or the list of all. Parameters are seconds of
// profile and trace, debug=1 or 2 for text, and gc=1 to collect garbage before.
func goProfiles(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch name := strings.TrimPrefix(r.URL.Path, profilesPath); name {
	case "":
		writeText(w, http.StatusOK, profileNames())
	case "cmdline":
		writeText(w, http.StatusOK, strings.Join(os.Args, "\x00"))
	case "profile":
		timed(w, r, profileTime, pprof.StartCPUProfile, pprof.StopCPUProfile)
	case "trace":
		timed(w, r, traceTime, trace.Start, trace.Stop)
	default:
		snapshot(w, r, name)
	}
}

// profileNames lists the profiles, a line each with its number of entries.
func profileNames() string {
	lines := []string{"cmdline\n", "profile?seconds=N\n", "trace?seconds=N\n"}
	for _, p := range pprof.Profiles() {
		lines = append(lines, fmt.Sprintf("%s?debug=1 (%d)\n", p.Name(), p.Count()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// timed serves what start writes in some seconds, or until the client has gone.
func timed(w http.ResponseWriter, r *http.Request, lasts time.Duration, start func(io.Writer) error, stop func()) {
	if text := r.FormValue("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds > 0 && seconds <= mostTime.Seconds()) { // NaN is neither
			refuse(w, http.StatusBadRequest, fmt.Sprintf("seconds is %q; write a number above 0, at most %.0f", text, mostTime.Seconds()))
			return
		}
		lasts = time.Duration(seconds * float64(time.Second))
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lasts + writeTime)) // without it, as any response
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(w); err != nil {
		refuse(w, http.StatusConflict, fmt.Sprintf("%v; retry when the other profile has ended", err))
		return
	}
	defer stop()
	ctx, cancel := context.WithTimeout(r.Context(), lasts)
	defer cancel()
	<-ctx.Done()
}

// snapshot serves a profile that the runtime always has.
func snapshot(w http.ResponseWriter, r *http.Request, name string) {
	p := pprof.Lookup(name)
	if p == nil {
		refuse(w, http.StatusNotFound, "there is no profile of that name; "+profilesPath+" lists them")
		return
	}
	if r.FormValue("seconds") != "" {
		refuse(w, http.StatusBadRequest, "only profile and trace have seconds; take two and compare them with go tool pprof -diff_base")
		return
	}
	if r.FormValue("gc") == "1" {
		runtime.GC()
	}
	debug, kind := 0, "application/octet-stream"
	if text := r.FormValue("debug"); text == "1" || text == "2" {
		debug, kind = int(text[0]-'0'), "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	_ = p.WriteTo(w, debug) // a client that has gone needs no response
}

// refuse writes why there is no profile, in the form whose text go tool pprof shows.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("X-Go-Pprof", "1")
	http.Error(w, why, status)
}
