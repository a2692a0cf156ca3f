package admin

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/text"
)

// readyz answers whether the broker serves clients. With ?in-sync it is also not ready while one of
// its replicas is not in sync: the next broker of a rolling restart has to wait for that. Findings
// name topics, transactions, clients and directories, so that they are for those who may read.
func (o *Options) readyz(w http.ResponseWriter, r *http.Request, mayRead bool, replicas *behind) {
	report := o.Health.Report(r.Context())
	body, status := report.Text(), http.StatusOK
	if !report.Ready {
		status = http.StatusServiceUnavailable
	} else if r.URL.Query().Has("in-sync") {
		if n := replicas.of(o.View()); n > 0 {
			status = http.StatusServiceUnavailable
			body = fmt.Sprintf("not ready: %s of this broker not in sync\n", text.Plural(n, "replica is", "replicas are"))
		}
	}
	if first, _, _ := strings.Cut(body, "\n"); !mayRead {
		body = first + "\n"
	}
	writeText(w, status, body)
}

// behind counts the replicas of the broker that are not in sync. Everybody may ask, and a survey
// reads all partitions: surveys take at most a tenth of a processor, as the checks do.
type behind struct {
	mu    sync.Mutex
	count int
	next  time.Time // of the survey
}

func (c *behind) of(v *View) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	begun := time.Now()
	if begun.Before(c.next) {
		return c.count
	}
	c.count = 0
	for _, b := range v.Cluster().Brokers {
		if b.ID == v.Node {
			c.count = b.OutOfSync.Count
		}
	}
	c.next = time.Now().Add(9 * time.Since(begun))
	return c.count
}
