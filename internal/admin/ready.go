package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/text"
)

// readyz answers whether the broker serves clients. With ?in-sync it is also not ready while one of
// its replicas is not in sync: the next broker of a rolling restart has to wait for that. Findings
// name topics, transactions, clients and directories, so that they are for those who may read. A
// certificate that is not valid is seen by all who connect, so the answer for all says it. The
// broker stays ready then: neither a restart nor another broker helps its clients, and an upgrade
// that brings the new certificate would wait for it.
func (o *Options) readyz(w http.ResponseWriter, r *http.Request, mayRead bool, replicas *pause.Seldom[int]) {
	report := o.Health.Report(r.Context())
	body, status := report.Text(), http.StatusOK
	if !report.Ready {
		status = http.StatusServiceUnavailable
	} else if r.URL.Query().Has("in-sync") {
		if n := replicas.Of(o.behind); n > 0 { // everybody may ask
			status = http.StatusServiceUnavailable
			body = fmt.Sprintf("not ready: %s of this broker not in sync\n", text.Plural(n, "replica is", "replicas are"))
		}
	}
	if first, _, _ := strings.Cut(body, "\n"); !mayRead {
		if slices.ContainsFunc(report.Findings, report.Refused) {
			first += "; a certificate has expired or is not valid yet, see chronikctl cluster health"
		}
		body = first + "\n"
	}
	writeText(w, status, body)
}

// behind returns how many replicas of the broker are not in sync. It reads all partitions.
func (o *Options) behind() int {
	v := o.View()
	for _, b := range v.Cluster().Brokers {
		if b.ID == v.Node {
			return b.OutOfSync.Count
		}
	}
	return 0
}
