package daemon

import (
	"net/http"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/diagnose"
)

// healthState is a finding in GET /v1/health.
type healthState struct {
	Severity string `json:"severity"` // severityDown, severityDegraded
	Part     string `json:"part"`
	Message  string `json:"message"`
	Remedy   string `json:"remedy"`
}

// The severities of GET /v1/health.
const (
	severityDown     = "down"     // the broker is not ready
	severityDegraded = "degraded" // it is, but something doesn't work
)

// health is GET /v1/health: of the findings those that say at this moment whether
// clients are served.
func (a *api) health() any {
	found := a.b.ready.findings()
	list := []healthState{}
	for _, f := range found {
		severity := severityDegraded
		if f.Severity == diagnose.Bad {
			severity = severityDown
		}
		list = append(list, healthState{severity, f.Subject, f.What, f.Remedy})
	}
	return map[string]any{
		"broker":   a.b.node,
		"ready":    !slices.ContainsFunc(found, func(f diagnose.Finding) bool { return f.Severity == diagnose.Bad }),
		"findings": list,
	}
}

// findingState is a finding in GET /v1/findings.
type findingState struct {
	Check    string `json:"check"`
	Severity string `json:"severity"`
	Subject  string `json:"subject"`
	What     string `json:"what"`
	Remedy   string `json:"remedy"`
}

// checkState is a check in GET /v1/findings.
type checkState struct {
	Name string   `json:"name"`
	Doc  string   `json:"doc"`
	Saw  []string `json:"saw"`
}

// findings is GET /v1/findings, and POST, which measures the disks first.
func (a *api) findings(w http.ResponseWriter, r *http.Request) {
	err := known(r.URL.Query())
	if err == nil && r.Method == http.MethodPost {
		err = a.probe(r.Context())
	}
	if err != nil {
		answer(w, nil, err)
		return
	}
	found, err := a.b.watch.Now(r.Context())
	if err != nil {
		answer(w, nil, &apiError{http.StatusServiceUnavailable, err.Error()})
		return
	}
	list, checks := []findingState{}, []checkState{}
	for _, f := range found.Findings {
		list = append(list, findingState{f.Check, string(f.Severity), f.Subject, f.What, f.Remedy})
	}
	for _, c := range found.Looked {
		checks = append(checks, checkState{c.Name, c.Doc, append([]string{}, c.Saw...)})
	}
	answer(w, map[string]any{"broker": a.b.node, "at": found.At.UTC().Format(time.RFC3339Nano), "findings": list, "checks": checks}, nil)
}
